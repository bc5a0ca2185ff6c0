//! A child that does not outlive this process.
#![allow(unsafe_code)]

use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

/// Makes the kernel end the child when the thread that spawns it ends, however that happens. It stays in
/// the terminal's process group, so that Ctrl-C reaches it too.
pub(crate) fn dies_with_us(command: &mut Command) -> &mut Command {
    let me = Pid::from_raw(std::process::id().cast_signed());
    let prepare = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // Whoever died between fork and here sent no signal.
        if getppid() == me { Ok(()) } else { Err(std::io::Error::from_raw_os_error(3)) }
    };
    // SAFETY: between fork and exec this makes two system calls and neither allocates nor locks.
    unsafe { command.pre_exec(prepare) }
}

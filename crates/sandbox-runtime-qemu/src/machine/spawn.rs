//! Starting a machine's parts, so that none of them outlives it.
#![allow(unsafe_code)]

use std::mem::ManuallyDrop;
use std::os::fd::{FromRawFd, OwnedFd};
use std::process::Command;

use rustix::io::Errno;
use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

/// Lets the child inherit `fds` under the numbers 3, 4, … in their order, and has the kernel kill it when
/// the calling thread's process dies, however it dies.
pub fn prepare(command: &mut Command, fds: Vec<OwnedFd>) {
    use std::os::unix::process::CommandExt;
    let parent = getpid();
    // With room for all of them before the fork: behind it nothing may allocate.
    let mut high: Vec<OwnedFd> = Vec::with_capacity(fds.len());
    let work = move || -> std::io::Result<()> {
        // Above every target number first: a later dup2 must not overwrite a source.
        for fd in &fds {
            high.push(rustix::io::fcntl_dupfd_cloexec(fd, 64)?);
        }
        for (target, source) in (3..).zip(&high) {
            // SAFETY: whatever has this number in the child is replaced by `dup2` or was nobody's, and nothing is
            // closed by this handle: the child executes another program next.
            let mut target = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(target) });
            rustix::io::dup2(source, &mut target)?;
        }
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have died before the line above.
        if getppid() != Some(parent) {
            return Err(Errno::SRCH.into());
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes system calls (fcntl, dup2, prctl, getppid) and nothing else:
    // its list does not grow, and its errors are numbers.
    unsafe { command.pre_exec(work) };
}

/// Leaves the starter's session and process group: a closed terminal or its Ctrl-C is not the machine's.
pub fn leave_session() -> std::io::Result<()> {
    match rustix::process::setsid() {
        Ok(_) | Err(Errno::PERM) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

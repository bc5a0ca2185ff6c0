//! A process that is nothing to whoever starts it.
#![allow(unsafe_code)]

use std::os::unix::process::CommandExt;
use std::process::Command;

/// Leaves the starter's session and process group, so that a closed terminal or its Ctrl-C is not the process's; and
/// hands over nothing but the three standard streams: whoever started this program may wait for the end of a
/// descriptor that it has left open.
pub fn detach(command: &mut Command) {
    let work = || {
        rustix::process::setsid()?;
        // SAFETY: descriptors are marked, none is closed here. A kernel that cannot do it leaves them as they are.
        unsafe { libc::close_range(3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC.cast_signed()) };
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes two system calls, and allocates nothing.
    unsafe { command.pre_exec(work) };
}

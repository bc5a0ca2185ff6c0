//! Starting a machine's parts, so that none of them outlives it.
#![allow(unsafe_code)]

use std::os::fd::{OwnedFd, RawFd};
use std::process::Command;

use nix::sys::signal::Signal;

/// Lets the child inherit `fds` under the numbers 3, 4, … in their order, and has the kernel kill it when
/// the calling thread's process dies, however it dies.
pub fn prepare(command: &mut Command, fds: Vec<OwnedFd>) {
    use std::os::unix::process::CommandExt;
    let parent = nix::unistd::getpid();
    let work = move || {
        // Above every target number first: a later dup2 must not overwrite a source.
        let mut high: Vec<RawFd> = Vec::new();
        for fd in &fds {
            high.push(nix::fcntl::fcntl(fd, nix::fcntl::FcntlArg::F_DUPFD_CLOEXEC(64))?);
        }
        for (target, source) in (3..).zip(&high) {
            // SAFETY: dup2 on plain numbers; the targets are free or may be replaced in this child, which
            // executes another program next.
            if unsafe { nix::libc::dup2(*source, target) } < 0 {
                return Err(std::io::Error::last_os_error());
            }
        }
        nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
        // The parent may have died before the line above.
        if nix::unistd::getppid() != parent {
            return Err(std::io::Error::other("the machine process is gone"));
        }
        Ok(())
    };
    // SAFETY: the closure makes only async-signal-safe system calls (fcntl, dup2, prctl, getppid) and
    // allocates at most a few bytes before exec in a child of a process whose other threads hold no
    // allocator lock across fork (glibc resets it in the child).
    unsafe { command.pre_exec(work) };
}

/// Leaves the starter's session and process group: a closed terminal or its Ctrl-C is not the machine's.
pub fn leave_session() -> std::io::Result<()> {
    match nix::unistd::setsid() {
        Ok(_) | Err(nix::errno::Errno::EPERM) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

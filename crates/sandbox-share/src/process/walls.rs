//! The walls around the process: namespaces with the checkout as the whole world, no capability, and
//! a filter of system calls.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::net::UnixListener;

use virtiofsd::sandbox::{Sandbox, SandboxMode};
use virtiofsd::seccomp::{SeccompAction, enable_seccomp};

use super::child::works_in_a_child;
use super::lifeline::Tie;
use crate::config::ShareConfig;
use crate::error::ShareError;

/// The process inside its walls.
pub(crate) struct Inside {
    pub sandbox: Sandbox,
    pub listener: UnixListener,
    pub mode: SandboxMode,
}

/// Enters the namespaces. The calling process must have one thread; it stays behind, waits for the
/// one inside (which is where this returns), and ends with it.
///
/// Where the host forbids namespaces, the process stays where it is: what remains are the owner's
/// rights, the lack of capabilities, the filter, and that no name from the guest leaves the folder.
pub(crate) fn enter(config: &ShareConfig, listener: UnixListener) -> Result<Inside, ShareError> {
    let dir = config.dir.to_str().ok_or_else(|| ShareError::PathNotUtf8 { path: config.dir.clone() })?;
    let mode = if namespaces_work(dir, &listener).map_err(ShareError::Probe)? {
        SandboxMode::Namespace
    } else {
        log::warn!("this host allows no namespaces: {dir} is served without them");
        SandboxMode::None
    };
    let tie = Tie::new()?;
    let mut sandbox = Sandbox::new(dir.to_owned(), mode, vec![], vec![]);
    // Handed over, not shared: the process outside must not keep the socket open for connections.
    let entered = sandbox.enter(listener.into());
    let entered = entered.map_err(|source| ShareError::Sandbox { dir: config.dir.clone(), source })?;
    // SAFETY: `entered` owns the descriptor and outlives the borrow.
    let borrowed = unsafe { BorrowedFd::borrow_raw(entered.as_raw_fd()) };
    let listener = UnixListener::from(borrowed.try_clone_to_owned().map_err(ShareError::Probe)?);
    if mode == SandboxMode::Namespace {
        tie.fasten()?;
    }
    Ok(Inside { sandbox, listener, mode })
}

/// Gives every capability up, for good.
pub(crate) fn drop_capabilities() -> Result<(), ShareError> {
    capng::clear(capng::Set::BOTH);
    // Without rights over the bounding set there is nothing in it that could be gained either.
    capng::apply(capng::Set::BOTH)
        .or_else(|_| {
            capng::clear(capng::Set::BOTH);
            capng::apply(capng::Set::CAPS)
        })
        .map_err(ShareError::Capabilities)
}

/// From here on, a system call that a file server does not need ends the process.
pub(crate) fn filter_system_calls() -> Result<(), ShareError> {
    enable_seccomp(SeccompAction::Kill, false).map_err(ShareError::Seccomp)
}

fn namespaces_work(dir: &str, listener: &UnixListener) -> io::Result<bool> {
    let spare = listener.try_clone()?;
    works_in_a_child(|| {
        let mut sandbox = Sandbox::new(dir.to_owned(), SandboxMode::Namespace, vec![], vec![]);
        sandbox.enter(spare.into()).map_err(|error| io::Error::other(format!("{error:?}")))
    })
}

//! Becoming the checkout's owner.

use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Gid, Uid, getegid, geteuid, set_dumpable_behavior};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use crate::config::ShareConfig;
use crate::error::ShareError;

/// The identity the process has from now on: every file the guest makes gets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Acting {
    pub uid: u32,
    pub gid: u32,
}

/// Root becomes the owner of the checkout; anyone else must be the owner already. The process must
/// have one thread only: the kernel changes the identity of that one.
pub(crate) fn become_owner(config: &ShareConfig) -> Result<Acting, ShareError> {
    let actual = geteuid();
    if actual.is_root() {
        let failed = |source| ShareError::BecomeOwner { uid: config.host_uid, gid: config.host_gid, source };
        let (uid, gid) = (Uid::from_raw(config.host_uid), Gid::from_raw(config.host_gid));
        // Root of a small user namespace may not drop groups; there are none to gain by staying root.
        match set_thread_groups(&[]) {
            Err(Errno::PERM) if uid.is_root() => {}
            other => other.map_err(failed)?,
        }
        set_thread_res_gid(gid, gid, gid).map_err(failed)?;
        set_thread_res_uid(uid, uid, uid).map_err(failed)?;
        // A change of user hides the process from its own /proc/self, which the sandbox works with.
        set_dumpable_behavior(DumpableBehavior::Dumpable).map_err(failed)?;
    } else if actual.as_raw() != config.host_uid {
        return Err(ShareError::WrongUser { owner: config.host_uid, actual: actual.as_raw() });
    }
    Ok(Acting { uid: geteuid().as_raw(), gid: getegid().as_raw() })
}

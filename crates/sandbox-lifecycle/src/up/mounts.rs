//! Whether what is to be mounted is there, and that it was.

use sandbox_model::{ExtraMount, Status};
use sandbox_state::{Layout, remember_writable};

use super::plan::Plan;
use crate::{LifecycleError, Result};

/// Fails where a start would find something missing, before anything is built or ended for it. What runs has its
/// mounts, whatever became of their folders since.
pub fn check(mounts: &[ExtraMount]) -> Result<()> {
    match mounts.iter().find(|mount| !mount.source.exists()) {
        Some(mount) => Err(LifecycleError::MountSource {
            source_path: mount.source.clone(),
            target: mount.target.clone(),
        }),
        None => Ok(()),
    }
}

/// Remembers the folders that a sandbox is about to get, before it can put a link into one.
pub fn remember(layout: &Layout, mounts: &[ExtraMount]) -> Result<()> {
    // A single file holds no links.
    for mount in mounts.iter().filter(|mount| !mount.readonly && !mount.source.is_file()) {
        remember_writable(layout, &mount.source)?;
    }
    Ok(())
}

/// Whether what is there will need its mounts: nothing starts a running sandbox again but a plan.
pub fn needed(status: Option<&Status>) -> bool {
    status.is_none_or(Status::is_at_rest)
}

/// Whether a plan starts a sandbox with what is wanted.
pub const fn starts(plan: &Plan) -> bool {
    !matches!(plan, Plan::Use { .. } | Plan::Wake { .. } | Plan::Wait | Plan::Refuse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_its_place() {
        let mount =
            |source: &str| ExtraMount { target: "/data".into(), source: source.into(), readonly: false };
        check(&[mount("/")]).unwrap();
        let error = check(&[mount("/"), mount("/not/there")]).unwrap_err().to_string();
        assert_eq!(error, "/not/there, which is mounted at /data, is not there");
    }

    #[test]
    fn what_runs_needs_none() {
        assert!(needed(None) && needed(Some(&Status::Stopped)) && !needed(Some(&Status::Running)));
        assert!(starts(&Plan::StopAndUpdate) && !starts(&Plan::Use { pending: vec![], kept: false }));
    }
}

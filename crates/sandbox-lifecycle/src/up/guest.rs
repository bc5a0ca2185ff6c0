//! What of the host shows in the guest: folders and owners.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use sandbox_model::{ByteSize, GUEST_WORKSPACE, WorkspaceMount};

use crate::{Identity, LifecycleError, Project, Result};

/// The guest folder for a folder below the checkout. One whose name is not UTF-8 cannot be named in a
/// command, so the checkout's top takes its place.
pub fn guest_dir(subdir: &Path) -> String {
    match subdir.to_str() {
        None | Some("") => GUEST_WORKSPACE.into(),
        Some(subdir) => format!("{GUEST_WORKSPACE}/{subdir}"),
    }
}

/// The mount of the checkout: for root its owner is `dev`, for anyone else it is the caller.
pub fn workspace(project: &Project, identity: Identity, quota: ByteSize) -> Result<WorkspaceMount> {
    let gone = |_| LifecycleError::CheckoutGone(project.root.clone());
    let metadata = std::fs::metadata(&project.root).map_err(gone)?;
    if !metadata.is_dir() {
        return Err(LifecycleError::CheckoutGone(project.root.clone()));
    }
    let dev = sandbox_image::guest_user(identity.uid, identity.gid);
    let root = identity.uid == 0;
    Ok(WorkspaceMount {
        source: project.root.clone(),
        quota,
        host_uid: if root { metadata.uid() } else { identity.uid },
        host_gid: if root { metadata.gid() } else { identity.gid },
        guest_uid: dev.0,
        guest_gid: dev.1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guest_folder_follows_the_subfolder() {
        assert_eq!(guest_dir(Path::new("")), "/workspace");
        assert_eq!(guest_dir(Path::new("src/a b")), "/workspace/src/a b");
    }
}

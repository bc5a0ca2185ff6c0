use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::{CheckoutError, find, read};

/// The folders of the linked worktrees that the repository around `folder` knows, as its own pointers name
/// them, sorted. They may be of another machine's file system, a sandbox's, and need not be there.
///
/// No worktree and no repository is an empty list. An entry that says nothing is left out.
pub fn linked_worktrees(folder: &Path) -> Result<Vec<PathBuf>, CheckoutError> {
    let Some(found) = find::find(folder)? else { return Ok(Vec::new()) };
    let entries = found.git_dir.common.join("worktrees");
    // A link would list folders of somewhere else.
    if !std::fs::symlink_metadata(&entries).is_ok_and(|metadata| metadata.is_dir()) {
        return Ok(Vec::new());
    }
    let unreadable = |source| CheckoutError::Unreadable { path: entries.clone(), source };
    let mut folders = Vec::new();
    for entry in fs_err::read_dir(&entries).map_err(unreadable)? {
        let pointer = entry.map_err(unreadable)?.path().join("gitdir");
        let Ok(Some(bytes)) = read::file(&pointer) else { continue };
        let path = Path::new(OsStr::from_bytes(bytes.trim_ascii_end()));
        if let Some(folder) = path.parent().filter(|_| path.is_absolute() && path.ends_with(".git")) {
            folders.push(folder.to_path_buf());
        }
    }
    folders.sort();
    Ok(folders)
}

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::CheckoutError;
use crate::git_dir::GitDir;

/// A git directory, and the folder it was found for.
#[derive(Debug)]
pub struct Found {
    pub git_dir: GitDir,
    /// The folder that holds the pointer or the git directory; the bare repository itself where it stands
    /// alone.
    pub folder: PathBuf,
    /// The `.git` (or `.bare`) entry in that folder; `None` for a bare repository that stands alone.
    pub entry: Option<PathBuf>,
}

/// Looks from `folder` (resolved) upwards, as git does.
pub fn find(folder: &Path) -> Result<Option<Found>, CheckoutError> {
    for folder in folder.ancestors() {
        let dot_git = folder.join(".git");
        if let Some(git_dir) = GitDir::read(&dot_git)? {
            return Ok(Some(Found { git_dir, folder: folder.into(), entry: Some(dot_git) }));
        }
        let dot_bare = folder.join(".bare");
        if dot_bare.is_dir()
            && let Some(git_dir) = GitDir::read(&dot_bare)?
            && git_dir.bare
        {
            return Ok(Some(Found { git_dir, folder: folder.into(), entry: Some(dot_bare) }));
        }
        if let Some(git_dir) = standing_in_bare(folder)? {
            return Ok(Some(Found { git_dir, folder: folder.into(), entry: None }));
        }
    }
    Ok(None)
}

/// `folder` is a bare repository. The git directories of checkouts, submodules and worktrees look like
/// one; their checkout is further up.
fn standing_in_bare(folder: &Path) -> Result<Option<GitDir>, CheckoutError> {
    let name = folder.file_name();
    if name == Some(OsStr::new(".git")) || name == Some(OsStr::new(".bare")) {
        return Ok(None);
    }
    // A folder of the checkout that may be entered but not listed is no reason to fail.
    if !folder.join("objects").is_dir() || !folder.join("refs").is_dir() {
        return Ok(None);
    }
    let Some(git_dir) = GitDir::read(folder)? else { return Ok(None) };
    let alone = git_dir.bare && !git_dir.is_linked() && !is_named_by_parent(&git_dir, folder)?;
    Ok(alone.then_some(git_dir))
}

/// `folder/../.git` points here, so the bare checkout is the folder above.
fn is_named_by_parent(git_dir: &GitDir, folder: &Path) -> Result<bool, CheckoutError> {
    let Some(parent) = folder.parent() else { return Ok(false) };
    Ok(GitDir::read(&parent.join(".git"))?.is_some_and(|other| other.path == git_dir.path))
}

/// The folder whose checkout the repository with this shared directory is, where that can be proven from
/// outside the directory: what it says about itself is written by whoever can write to it.
pub fn main_checkout(git_dir: &GitDir) -> Option<PathBuf> {
    let common = git_dir.common.as_path();
    let parent = common.parent()?;
    let name = common.file_name();
    if name == Some(OsStr::new(".git")) || (git_dir.bare && name == Some(OsStr::new(".bare"))) {
        return Some(parent.into());
    }
    let points_here = |folder: &Path| {
        let other = GitDir::read(&folder.join(".git"));
        matches!(other, Ok(Some(other)) if other.path == common)
    };
    if git_dir.bare {
        return Some(if points_here(parent) { parent.into() } else { common.into() });
    }
    git_dir.work_tree.clone().filter(|tree| points_here(tree))
}

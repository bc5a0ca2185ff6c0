use std::path::{Path, PathBuf};

use crate::find::{Found, main_checkout};
use crate::read;

/// A repository in another folder than its checkout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outside {
    /// The git directory that all its worktrees share, resolved.
    pub common: PathBuf,
    /// `common` as the checkout's own pointer leads there from its root, where that is a relative path.
    pub relative: Option<PathBuf>,
}

/// The repository around `root`, the checkout that was found, where it is elsewhere.
///
/// Whoever works in the checkout writes the pointer to it, and must not choose another folder of this computer
/// with that: so the repository says likewise that `root` is its own, and from a place that is not in `root`.
pub fn outside(found: &Found, root: &Path) -> Option<Outside> {
    let git_dir = &found.git_dir;
    let entry = found.entry.as_deref()?;
    if found.folder != root || git_dir.common.starts_with(root) || root.starts_with(&git_dir.common) {
        return None;
    }
    let known = if git_dir.is_linked() {
        git_dir.is_worktree_of(entry)
    } else {
        main_checkout(git_dir).is_some_and(|main| main == root)
    };
    known.then(|| Outside { common: git_dir.common.clone(), relative: relative(found, entry) })
}

fn relative(found: &Found, entry: &Path) -> Option<PathBuf> {
    let bytes = read::file(entry).ok()??;
    let text = std::str::from_utf8(&bytes).ok()?;
    let pointer = Path::new(text.strip_prefix("gitdir:")?.trim());
    if pointer.is_absolute() {
        return None;
    }
    // From the worktree's private directory to what all of them share.
    let private = found.git_dir.path.strip_prefix(&found.git_dir.common).ok()?;
    let pointer = pointer.to_str()?.trim_end_matches('/').strip_suffix(private.to_str()?)?;
    Some(PathBuf::from(pointer.trim_end_matches('/')))
}

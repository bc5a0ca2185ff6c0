//! Which checkout a folder belongs to, and the identity that follows from it.
//!
//! Only facts are read: where the git directory is, which directory its worktrees share, and the URL of
//! `origin`. No program is run, no hook, filter or include of the repository is followed, and no
//! environment variable of git's is heard: whoever works in a checkout writes all of that.

mod error;
mod find;
mod git_dir;
mod identity;
mod outside;
mod read;
mod worktrees;

use std::path::{Path, PathBuf};

use sandbox_model::{CheckoutSlug, RepoSlug};

pub use error::CheckoutError;
pub use outside::Outside;
pub use worktrees::linked_worktrees;

/// The folder beside a checkout's own files that holds the project's settings.
pub const PROJECT_DIR: &str = ".agents-sandbox";

/// One checkout, as seen from a folder in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkout {
    /// Resolved and absolute: what is bound at `/workspace`.
    pub root: PathBuf,
    /// From `root` to the folder where the command was typed; empty at the root itself.
    pub subdir: PathBuf,
    /// Keys the sandbox, its home volume, its image, its locks and its state.
    pub checkout_slug: CheckoutSlug,
    /// Keys what all clones of one remote share.
    pub repo_slug: RepoSlug,
    /// Where the project's settings, Dockerfile and agent files are, whether it exists or not.
    pub project_dir: PathBuf,
    /// The first URL of `origin`, as written in the repository's configuration.
    pub origin: Option<String>,
    /// The git directory that all worktrees share, resolved; `None` without git.
    pub common_dir: Option<PathBuf>,
    /// The repository of a linked worktree, or of a submodule, that is not in `root`; `None` also where it does
    /// not say itself that this checkout is its own.
    pub outside: Option<Outside>,
}

/// Finds the checkout that `cwd` is in.
///
/// A folder without git is its own checkout. Fails when `cwd` is gone or is no folder, when a `.git` on
/// the way points nowhere, and when a git directory may not be read.
pub fn discover(cwd: &Path) -> Result<Checkout, CheckoutError> {
    let folder =
        fs_err::canonicalize(cwd).map_err(|source| CheckoutError::Folder { path: cwd.into(), source })?;
    if !folder.is_dir() {
        return Err(CheckoutError::NotAFolder { path: folder });
    }
    let found = find::find(&folder)?;
    let identity = match &found {
        Some(found) => identity::identity(found),
        None => identity::Identity { root: folder.clone(), hashed: folder.clone() },
    };
    let origin = found.as_ref().and_then(|found| found.git_dir.origin.as_ref());
    let (checkout_slug, repo_slug) = identity::slugs(&identity, origin.map(|url| url.as_slice()));
    Ok(Checkout {
        subdir: folder.strip_prefix(&identity.root).map(Path::to_path_buf).unwrap_or_default(),
        checkout_slug,
        repo_slug,
        project_dir: identity.root.join(PROJECT_DIR),
        origin: origin.map(ToString::to_string),
        outside: found.as_ref().and_then(|found| outside::outside(found, &identity.root)),
        common_dir: found.map(|found| found.git_dir.common),
        root: identity.root,
    })
}

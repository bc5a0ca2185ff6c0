use std::path::{Path, PathBuf};

use sandbox_model::{CheckoutSlug, RepoSlug, folder_part, repository_name};

use crate::find::{Found, main_checkout};

/// What is bound, and what is hashed.
#[derive(Debug, PartialEq, Eq)]
pub struct Identity {
    pub root: PathBuf,
    /// The input of the checkout slug's hash.
    pub hashed: PathBuf,
}

/// The rules of identity.
///
/// | where | bound at `/workspace` | hashed |
/// |---|---|---|
/// | a checkout, a submodule, a bare checkout | its root | its git directory |
/// | a linked worktree inside its checkout | the checkout's root | the checkout's git directory |
/// | a linked worktree elsewhere | its own root | its own root |
/// | a folder whose git directory belongs to another folder | its own root | its own root |
pub fn identity(found: &Found) -> Identity {
    let git_dir = &found.git_dir;
    let own = || Identity { root: found.folder.clone(), hashed: found.folder.clone() };
    let shared = |root: &Path| Identity { root: root.into(), hashed: git_dir.common.clone() };
    if git_dir.is_linked() {
        let known = found.entry.as_deref().is_some_and(|entry| git_dir.is_worktree_of(entry));
        return match main_checkout(git_dir) {
            Some(main) if known && found.folder.starts_with(&main) => shared(&main),
            _ => own(),
        };
    }
    let inside = git_dir.path.starts_with(&found.folder);
    let names_it = main_checkout(git_dir).is_some_and(|main| main == found.folder);
    if inside || names_it { shared(&found.folder) } else { own() }
}

/// The readable name and both slugs. `origin` is the raw URL, `root` the bound folder.
pub fn slugs(identity: &Identity, origin: Option<&[u8]>) -> (CheckoutSlug, RepoSlug) {
    let url = origin.map(String::from_utf8_lossy);
    let own = identity.root.file_name().unwrap_or_default().to_string_lossy();
    let remote = url.as_deref().map(repository_name).filter(|name| !name.is_empty());
    let folder = folder_part(remote.unwrap_or(&own));
    let source = origin.unwrap_or_else(|| identity.root.as_os_str().as_encoded_bytes());
    (CheckoutSlug::new(&folder, &identity.hashed), RepoSlug::new(&folder, source))
}

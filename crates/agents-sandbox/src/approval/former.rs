//! A checkout that lost its `.git` is part of whatever repository lies around it, a home folder's perhaps,
//! and the next sandbox would see all of that. Whoever works in a sandbox can remove a `.git`.
//!
//! One that stays a folder of its own gets another name with it, and with the name another sandbox and home.

use std::io;
use std::path::{Path, PathBuf};

use fs_err as fs;
use sandbox_lifecycle::Project;
use sandbox_model::CheckoutSlug;
use sandbox_state::{Layout, StateError, write_private};

/// The folders around the one where the command was typed that were checkouts of their own.
pub fn former(layout: &Layout, project: &Project) -> Vec<PathBuf> {
    let folder = project.root.join(&project.subdir);
    let below = folder.ancestors().take_while(|path| *path != project.root);
    below.filter(|path| layout.checkout_root(path).exists()).map(Path::to_path_buf).collect()
}

/// The names that this folder's sandboxes had before, the last first.
pub fn names(layout: &Layout, project: &Project) -> Vec<CheckoutSlug> {
    let mut names = known(layout, project);
    names.retain(|name| *name != project.checkout);
    names.reverse();
    names
}

/// Every name that it had, the last one last.
fn known(layout: &Layout, project: &Project) -> Vec<CheckoutSlug> {
    let content = fs::read(layout.checkout_root(&project.root)).unwrap_or_default();
    let words = content.split(|byte| *byte == 0).skip(1);
    words.filter_map(|word| std::str::from_utf8(word).ok()?.parse().ok()).collect()
}

/// A marker is this folder's, or it is broken: then it is not written over.
fn check(marker: &Path, project: &Project) -> Result<(), StateError> {
    let problem = match fs::read(marker) {
        Ok(content) if content.starts_with(project.root.as_os_str().as_encoded_bytes()) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Ok(_) => "it is not the record of this folder".to_string(),
        Err(error) => error.to_string(),
    };
    Err(StateError::Malformed { path: marker.into(), problem })
}

/// Remembers that the project's folder is one, under which name, and that those below it no longer are.
/// Returns the name that it had until now, where that was another.
pub fn remember(
    layout: &Layout,
    project: &Project,
    former: &[PathBuf],
) -> Result<Option<CheckoutSlug>, StateError> {
    for path in former {
        match fs::remove_file(layout.checkout_root(path)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    check(&layout.checkout_root(&project.root), project)?;
    let mut names = known(layout, project);
    if names.last() == Some(&project.checkout) {
        return Ok(None);
    }
    let before = names.last().cloned();
    names.retain(|name| *name != project.checkout);
    names.push(project.checkout.clone());
    let mut content = project.root.as_os_str().as_encoded_bytes().to_vec();
    for name in &names {
        content.push(0);
        content.extend(name.as_str().as_bytes());
    }
    write_private(&layout.checkout_root(&project.root), &content)?;
    Ok(before)
}

//! A checkout that lost its `.git` is part of whatever repository lies around it, a home folder's perhaps,
//! and the next sandbox would see all of that. Whoever works in a sandbox can remove a `.git`.
//!
//! One that stays a folder of its own gets another name with it, and with the name another sandbox and home.

use std::io;
use std::path::{Path, PathBuf};

use fs_err as fs;
use sandbox_lifecycle::Project;
use sandbox_model::CheckoutSlug;
use sandbox_state::{Layout, StateError};

use super::marker::{self, Marker};

/// The folders around the one where the command was typed that were checkouts of their own.
pub fn former(layout: &Layout, project: &Project) -> Vec<PathBuf> {
    let folder = project.root.join(&project.subdir);
    let below = folder.ancestors().take_while(|path| *path != project.root);
    below.filter(|path| layout.checkout_root(path).exists()).map(Path::to_path_buf).collect()
}

/// The names that this folder's sandboxes had before, the last first.
pub fn names(layout: &Layout, project: &Project) -> Vec<CheckoutSlug> {
    let mut names = Marker::read(layout, &project.root).unwrap_or_default().names;
    names.retain(|name| *name != project.checkout);
    names.reverse();
    names
}

/// Remembers that the project's folder is one, under which name and with what, and that those below it no longer are.
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
    marker::check(&layout.checkout_root(&project.root), &project.root)?;
    let known = Marker::read(layout, &project.root).unwrap_or_default();
    let before = known.names.last().filter(|name| **name != project.checkout).cloned();
    let now = Marker::of(project, known.names.clone());
    if now != known {
        now.write(layout, &project.root)?;
    }
    Ok(before)
}

//! A checkout that lost its `.git` is part of whatever repository lies around it, a home folder's perhaps,
//! and the next sandbox would see all of that. Whoever works in a sandbox can remove a `.git`.

use std::io;
use std::path::{Path, PathBuf};

use fs_err as fs;
use sandbox_lifecycle::Project;
use sandbox_state::{Layout, write_private};

/// The folders around the one where the command was typed that were checkouts of their own.
pub fn former(layout: &Layout, project: &Project) -> Vec<PathBuf> {
    let folder = project.root.join(&project.subdir);
    let below = folder.ancestors().take_while(|path| *path != project.root);
    below.filter(|path| layout.checkout_root(path).exists()).map(Path::to_path_buf).collect()
}

/// Remembers that the project's folder is one, and that those below it no longer are.
pub fn remember(layout: &Layout, project: &Project, former: &[PathBuf]) -> io::Result<()> {
    for path in former {
        match fs::remove_file(layout.checkout_root(path)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    let marker = layout.checkout_root(&project.root);
    if marker.exists() {
        return Ok(());
    }
    write_private(&marker, project.root.as_os_str().as_encoded_bytes()).map_err(io::Error::other)
}

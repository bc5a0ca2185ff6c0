//! Which folders of the host whoever works in a sandbox can fill with links.

use std::path::PathBuf;

use sandbox_model::ExtraMount;
use sandbox_state::{Layout, writable_folders};

use crate::{Project, Result};

/// The checkout, the mounts that are not only read, and what any sandbox has, or had, to write.
pub fn walls(layout: &Layout, project: &Project, mounts: &[ExtraMount]) -> Result<Vec<PathBuf>> {
    let mut walls = writable_folders(layout)?;
    walls.push(project.root.clone());
    // A single file holds no links.
    let folders = mounts.iter().filter(|mount| !mount.readonly && !mount.source.is_file());
    walls.extend(folders.map(|mount| mount.source.clone()));
    Ok(walls)
}

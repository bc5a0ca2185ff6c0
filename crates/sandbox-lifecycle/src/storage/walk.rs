//! Bytes that files take, as `du` counts them: blocks, folders included, a file with several names once.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fs_err as fs;

/// The size of a block in `st_blocks`, whatever the file system's own is.
const BLOCK: u64 = 512;

/// A walk over several folders: what was counted in one is not counted in the next.
#[derive(Debug, Default)]
pub struct Walk {
    counted: HashSet<(u64, u64)>,
    /// Folders that could not be read; what is in them is not counted.
    pub unreadable: Vec<PathBuf>,
}

impl Walk {
    /// Visits everything below `path`, itself included, with the bytes it adds. What vanishes meanwhile is
    /// not there.
    pub fn visit(&mut self, path: &Path, seen: &mut dyn FnMut(&Path, u64)) {
        let Ok(metadata) = fs::symlink_metadata(path) else { return };
        if !self.counted.insert((metadata.dev(), metadata.ino())) {
            return;
        }
        seen(path, metadata.blocks() * BLOCK);
        if !metadata.is_dir() {
            return;
        }
        match fs::read_dir(path) {
            Ok(entries) => {
                let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
                paths.sort();
                for path in paths {
                    self.visit(&path, seen);
                }
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(_) => self.unreadable.push(path.into()),
        }
    }
}

/// Bytes that everything below `path` takes.
pub fn allocated(path: &Path) -> u64 {
    let mut total = 0;
    Walk::default().visit(path, &mut |_, bytes| total += bytes);
    total
}

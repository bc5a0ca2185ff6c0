//! What tells a file from another one, and from itself after a change.

use std::path::Path;

use sandbox_runtime::RuntimeError;
use serde::{Deserialize, Serialize};

/// Two equal marks of one path mean that nobody wrote to the file in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileMark {
    device: u64,
    inode: u64,
    size: u64,
    /// Last change of its contents, in nanoseconds since 1970.
    modified: i128,
}

impl FileMark {
    /// Follows links: it is the file that counts.
    pub fn of(path: &Path) -> Result<Self, RuntimeError> {
        use std::os::unix::fs::MetadataExt;
        let found = fs_err::metadata(path)?;
        Ok(Self {
            device: found.dev(),
            inode: found.ino(),
            size: found.size(),
            modified: i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_seen_even_where_the_size_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs_err::write(&path, "one").unwrap();
        let before = FileMark::of(&path).unwrap();
        assert_eq!(FileMark::of(&path).unwrap(), before);
        std::thread::sleep(std::time::Duration::from_millis(20));
        fs_err::write(&path, "two").unwrap();
        assert_ne!(FileMark::of(&path).unwrap(), before);
    }
}

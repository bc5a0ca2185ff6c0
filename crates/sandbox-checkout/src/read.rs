use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};

use sandbox_files::{LastLink, read_bytes};

use crate::CheckoutError;

/// Larger than any configuration a person wrote, small enough to hold.
const LIMIT: u64 = 4 << 20;

/// The metadata of what is at `path` after following links; `None` where nothing is.
pub fn metadata(path: &Path) -> Result<Option<Metadata>, CheckoutError> {
    absent_is_none(path, fs_err::metadata(path))
}

/// The whole of a regular file; `None` where there is none.
///
/// Whoever works in a checkout can put anything there. A pipe must not make the caller wait, and an
/// endless device must not fill its memory.
pub fn file(path: &Path) -> Result<Option<Vec<u8>>, CheckoutError> {
    absent_is_none(path, read_bytes(path, LastLink::Followed, LIMIT))
}

/// `path` with every link resolved.
pub fn resolve(path: &Path) -> Result<PathBuf, CheckoutError> {
    fs_err::canonicalize(path).map_err(|source| CheckoutError::Unreadable { path: path.into(), source })
}

fn absent_is_none<T>(path: &Path, result: io::Result<T>) -> Result<Option<T>, CheckoutError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(source) => Err(CheckoutError::Unreadable { path: path.into(), source }),
    }
}

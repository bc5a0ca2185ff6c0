//! A full disk is told as one, whatever was being made on it: it is nobody's fault but the disk's.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::path::Path;

use sandbox_runtime::RuntimeError;

/// Whether an error, or what caused it, is that there was no room.
pub fn is_full(error: &(dyn Error + 'static)) -> bool {
    let full = |error: &io::Error| matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.downcast_ref().is_some_and(full) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// What to say of something that failed while `path` was written: `other`, unless the disk is full.
pub fn unless_full(
    path: &Path,
    error: impl Error + 'static,
    other: impl FnOnce(String) -> RuntimeError,
) -> RuntimeError {
    if is_full(&error) { no_room(path) } else { other(error.to_string()) }
}

/// The error for a full disk, whatever was being written to `path`.
pub fn no_room(path: &Path) -> RuntimeError {
    let text = format!("cannot write {}: its disk is full", path.display());
    io::Error::new(ErrorKind::StorageFull, text).into()
}

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

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
    absent_is_none(path, read_regular(path))
}

/// `path` with every link resolved.
pub fn resolve(path: &Path) -> Result<PathBuf, CheckoutError> {
    fs_err::canonicalize(path).map_err(|source| CheckoutError::Unreadable { path: path.into(), source })
}

fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
    let file: File = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let mut bytes = Vec::new();
    if file.take(LIMIT + 1).read_to_end(&mut bytes)? as u64 > LIMIT {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "larger than 4 MiB"));
    }
    Ok(bytes)
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

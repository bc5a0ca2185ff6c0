use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

use crate::error::CommandError;

/// Far larger than any Dockerfile.
const LIMIT: u64 = 1 << 20;

/// The bytes of the project's Dockerfile; `None` where there is none.
///
/// Whoever works in the sandbox can put anything there: a pipe must not make us wait, nor an endless device
/// fill our memory.
pub fn read(path: &Path) -> Result<Option<Vec<u8>>, CommandError> {
    match read_regular(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(CommandError::new(format!("{} cannot be used: {error}", path.display()))),
    }
}

fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let mut bytes = Vec::new();
    if file.take(LIMIT + 1).read_to_end(&mut bytes)? as u64 > LIMIT {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "larger than 1 MiB"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_small_regular_file_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("Dockerfile");
        assert_eq!(read(&path).unwrap(), None);
        fs_err::write(&path, "FROM x\n").unwrap();
        assert_eq!(read(&path).unwrap().unwrap(), b"FROM x\n");
        fs_err::write(&path, vec![b'#'; (1 << 20) + 1]).unwrap();
        assert!(read(&path).unwrap_err().message.ends_with("larger than 1 MiB"));
        fs_err::remove_file(&path).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, 0o600.into()).unwrap();
        assert!(read(&path).unwrap_err().message.ends_with("not a regular file"));
    }
}

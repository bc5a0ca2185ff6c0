//! Unix sockets at paths longer than the 108 bytes of `sun_path`.
//!
//! The folder is opened and the socket named through `/proc/self/fd/N/name`, which is always short.

use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use crate::StateError;

fn short(path: &Path) -> Result<(OwnedFd, PathBuf), StateError> {
    let dir = path.parent().unwrap_or(Path::new("/"));
    let name = path.file_name().unwrap_or_default();
    let fd = rustix::fs::open(dir, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(std::io::Error::from)?;
    let short = PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd())).join(name);
    Ok((fd, short))
}

/// Listens at `path`, replacing a socket that a dead process left there. The caller holds the lock that
/// makes it the only one who may.
pub fn bind_socket(path: &Path) -> Result<UnixListener, StateError> {
    let (_dir, short) = short(path)?;
    match std::fs::remove_file(&short) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
    }
    Ok(UnixListener::bind(short)?)
}

/// Connects to the socket at `path`. A missing folder, a missing socket and one without a listener are
/// I/O errors of kind `NotFound` or `ConnectionRefused`.
pub fn connect_socket(path: &Path) -> Result<UnixStream, StateError> {
    let (_dir, short) = short(path)?;
    Ok(UnixStream::connect(short)?)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn a_path_of_300_bytes_works() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("x".repeat(150)).join("y".repeat(150));
        std::fs::create_dir_all(&deep).unwrap();
        let path = deep.join("a.sock");
        for _ in 0..2 {
            let listener = bind_socket(&path).unwrap();
            let mut client = connect_socket(&path).unwrap();
            client.write_all(b"hi").unwrap();
            drop(client);
            let mut text = String::new();
            listener.accept().unwrap().0.read_to_string(&mut text).unwrap();
            assert_eq!(text, "hi");
        }
        assert!(
            matches!(connect_socket(&path), Err(StateError::Io(e)) if e.kind() == std::io::ErrorKind::ConnectionRefused)
        );
    }
}

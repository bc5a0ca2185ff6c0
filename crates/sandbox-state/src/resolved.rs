//! Paths that were resolved when they were written down.

use std::io::{Error, Result};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;

/// Opens what is at an absolute path that had no links when it was recorded, to look at or to begin from, not to
/// read. A link in it was put there since, maybe by whoever works in a sandbox on the way, and is an error.
pub fn open_resolved(path: &Path) -> Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS).map_err(|error| match error {
        Errno::LOOP => Error::other(format!(
            "{} leads through a link that was not there when the sandbox was made; put the folder or file back",
            path.display()
        )),
        error => {
            let error = Error::from(error);
            Error::new(error.kind(), format!("{}: {error}", path.display()))
        }
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::fstat;

    use super::*;

    #[test]
    fn a_link_is_refused_wherever_it_stands() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        fs_err::create_dir_all(dir.join("a/below")).unwrap();
        fs_err::write(dir.join("a/file"), "12345").unwrap();
        open_resolved(&dir.join("a/below")).unwrap();
        assert_eq!(fstat(open_resolved(&dir.join("a/file")).unwrap()).unwrap().st_size, 5);
        symlink("a", dir.join("middle")).unwrap();
        symlink("a/file", dir.join("last")).unwrap();
        for path in ["middle/below", "middle/file", "last"] {
            let error = open_resolved(&dir.join(path)).unwrap_err().to_string();
            assert!(error.contains(path) && error.contains("through a link"), "{error}");
        }
        assert_eq!(open_resolved(&dir.join("gone")).unwrap_err().kind(), std::io::ErrorKind::NotFound);
    }
}

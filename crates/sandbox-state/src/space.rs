use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use crate::{StateError, make_private_dir};

/// Makes sure that so many bytes can be written in a folder of ours just now, in a file that has no name and
/// is gone at once. To be asked before something is ended or made that a record must follow.
pub fn check_space(dir: &Path, bytes: u64) -> Result<(), StateError> {
    make_private_dir(dir)?;
    let failed = |error: std::io::Error| {
        std::io::Error::new(error.kind(), format!("cannot write in {}: {error}", dir.display()))
    };
    let file = tempfile::tempfile_in(dir).map_err(failed)?;
    match fallocate(&file, FallocateFlags::empty(), 0, bytes) {
        // A file system that promises nothing has to show it when it comes to that.
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        Err(error) => Err(failed(error.into()).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_let_through_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let inside = dir.path().join("a/b");
        check_space(&inside, 4096).unwrap();
        assert_eq!(std::fs::read_dir(&inside).unwrap().count(), 0);
    }

    #[test]
    fn what_does_not_fit_names_the_folder() {
        let dir = tempfile::tempdir().unwrap();
        // More than any disk, and less than a file's greatest size.
        let error = check_space(dir.path(), 1 << 60).unwrap_err().to_string();
        assert!(error.contains(&*dir.path().to_string_lossy()), "{error}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}

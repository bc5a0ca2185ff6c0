//! Where a path of the host leads, and through which links.

use std::io::{ErrorKind, Result};
use std::path::{Path, PathBuf};

use sandbox_files::{Step, Walk};

/// A path, followed to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Followed {
    /// Absolute and without links, as far as something is there.
    pub place: PathBuf,
    /// Something is missing on the way, or does not answer, such as a disk that was unplugged.
    pub missing: bool,
    /// Where the links stand that led there: absolute paths whose folders are without links.
    pub links: Vec<PathBuf>,
}

/// Follows an absolute path link by link.
pub fn follow(path: &Path) -> Result<Followed> {
    let mut walk = Walk::new(path);
    let mut links = Vec::new();
    let missing = loop {
        match walk.step() {
            Ok(Some(Step::Through(link))) => links.push(link),
            Ok(Some(Step::Into)) => {}
            Ok(None) => break false,
            Err(error) if is_missing(error.kind()) => break true,
            Err(error) => return Err(error),
        }
    };
    let (mut place, rest) = walk.into_parts();
    place.extend(rest);
    Ok(Followed { place, missing, links })
}

fn is_missing(kind: ErrorKind) -> bool {
    use ErrorKind::{NotADirectory, NotConnected, NotFound, StaleNetworkFileHandle};
    matches!(kind, NotFound | NotADirectory | NotConnected | StaleNetworkFileHandle)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn every_link_on_the_way_is_told_and_the_end_is_that_of_the_kernel() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        fs::create_dir_all(dir.join("real/below")).unwrap();
        fs::write(dir.join("real/file"), "").unwrap();
        symlink("real", dir.join("one")).unwrap();
        symlink(dir.join("one/below"), dir.join("two")).unwrap();
        symlink("../file", dir.join("real/below/up")).unwrap();
        for (path, links) in [
            ("real/below", &[][..]),
            ("real/./below/../file", &[]),
            ("one/below", &["one"]),
            ("two", &["two", "one"]),
            ("two/../file", &["two", "one"]),
            ("two/up", &["two", "one", "real/below/up"]),
        ] {
            let found = follow(&dir.join(path)).unwrap();
            assert!(!found.missing && found.place == dir.join(path).canonicalize().unwrap(), "{path}");
            let links: Vec<PathBuf> = links.iter().map(|link| dir.join(link)).collect();
            assert_eq!(found.links, links, "{path}");
        }
        symlink("circle", dir.join("circle")).unwrap();
        assert!(follow(&dir.join("circle")).unwrap_err().to_string().contains("circles"));
        // A link to what is gone for now leads where it led.
        for (path, place) in [
            ("missing", "missing"),
            ("one/missing/below", "real/missing/below"),
            ("real/file/below", "real/file/below"),
        ] {
            let found = follow(&dir.join(path)).unwrap();
            assert!(found.missing && found.place == dir.join(place), "{path}: {found:?}");
        }
    }
}

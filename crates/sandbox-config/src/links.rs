//! Where a path of the host leads, and through which links.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::io::{Error, ErrorKind, Result};
use std::path::{Component, Path, PathBuf};

/// As many links as Linux follows.
const MOST_LINKS: usize = 40;

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
///
/// What it tells of the links is what it followed itself: asking again would leave time to exchange them.
pub fn follow(path: &Path) -> Result<Followed> {
    let mut todo = steps(path);
    let mut found = Followed { place: PathBuf::from("/"), missing: false, links: Vec::new() };
    while let Some(step) = todo.pop_front() {
        if step == ".." {
            found.place.pop();
            continue;
        }
        let next = found.place.join(&step);
        match fs::read_link(&next) {
            Ok(target) => {
                found.links.push(next);
                if found.links.len() > MOST_LINKS {
                    return Err(Error::other("its links lead in circles"));
                }
                if target.is_absolute() {
                    found.place = PathBuf::from("/");
                }
                let mut target = steps(&target);
                target.append(&mut todo);
                todo = target;
            }
            // It is there, and no link.
            Err(error) if error.kind() == ErrorKind::InvalidInput => found.place = next,
            Err(error) if is_missing(error.kind()) => {
                found.missing = true;
                found.place = next;
                found.place.extend(todo);
                return Ok(found);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

fn is_missing(kind: ErrorKind) -> bool {
    use ErrorKind::{NotADirectory, NotConnected, NotFound, StaleNetworkFileHandle};
    matches!(kind, NotFound | NotADirectory | NotConnected | StaleNetworkFileHandle)
}

fn steps(path: &Path) -> VecDeque<OsString> {
    let steps = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_os_string()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    });
    steps.collect()
}

#[cfg(test)]
mod tests {
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

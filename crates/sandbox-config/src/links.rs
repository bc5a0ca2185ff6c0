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
    /// Absolute and without links.
    pub place: PathBuf,
    /// Where the links stand that led there: absolute paths whose folders are without links.
    pub links: Vec<PathBuf>,
}

/// Follows an absolute path link by link. Fails when something on the way is missing.
///
/// What it tells of the links is what it followed itself: asking again would leave time to exchange them.
pub fn follow(path: &Path) -> Result<Followed> {
    let mut todo = steps(path);
    let mut found = Followed { place: PathBuf::from("/"), links: Vec::new() };
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
            Err(error) => return Err(error),
        }
    }
    Ok(found)
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
            assert_eq!(found.place, dir.join(path).canonicalize().unwrap(), "{path}");
            let links: Vec<PathBuf> = links.iter().map(|link| dir.join(link)).collect();
            assert_eq!(found.links, links, "{path}");
        }
        symlink("circle", dir.join("circle")).unwrap();
        assert!(follow(&dir.join("circle")).unwrap_err().to_string().contains("circles"));
        for path in ["missing", "real/missing/below"] {
            assert_eq!(follow(&dir.join(path)).unwrap_err().kind(), ErrorKind::NotFound, "{path}");
        }
        assert_eq!(follow(&dir.join("real/file/below")).unwrap_err().kind(), ErrorKind::NotADirectory);
    }
}

//! Where a path of the host leads, without letting whoever works in the checkout decide it.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{Error, ErrorKind, Result};
use std::path::{Component, Path, PathBuf};

/// As many links as Linux follows.
const LINKS: usize = 40;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Outside the checkout: an absolute path without links.
    Outside(PathBuf),
    /// Steps below the checkout's root. Whatever stands there may be exchanged for a link at any moment, so
    /// none of them may be followed.
    Inside(Vec<OsString>),
}

/// Follows the links of `path` one by one, as far as the checkout (an absolute path without links).
pub fn resolve(path: &Path, checkout: &Path) -> Result<Place> {
    let mut todo = steps(path);
    let mut at = PathBuf::from("/");
    let mut links = 0;
    while let Some(step) = todo.pop_front() {
        if at.starts_with(checkout) {
            todo.push_front(step);
            break;
        }
        if step == ".." {
            at.pop();
            continue;
        }
        let next = at.join(&step);
        match fs_err::read_link(&next) {
            Ok(target) => {
                links += 1;
                if links > LINKS {
                    return Err(Error::other(format!("{} leads in circles", path.display())));
                }
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
                let mut target = steps(&target);
                target.append(&mut todo);
                todo = target;
            }
            Err(error) if error.kind() == ErrorKind::InvalidInput => at = next,
            Err(error) => return Err(error),
        }
    }
    let Ok(below) = at.strip_prefix(checkout) else { return Ok(Place::Outside(at)) };
    let mut inside: Vec<OsString> = below.iter().map(OsString::from).collect();
    for step in todo {
        if step != ".." {
            inside.push(step);
        } else if inside.pop().is_none() {
            return Err(Error::other(format!("{} leads out of the checkout", path.display())));
        }
    }
    Ok(Place::Inside(inside))
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
    fn links_outside_are_followed_and_those_inside_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let checkout = dir.join("checkout");
        fs_err::create_dir_all(checkout.join("sub")).unwrap();
        fs_err::create_dir(dir.join("dotfiles")).unwrap();
        symlink("dotfiles", dir.join("link")).unwrap();
        symlink(&checkout, dir.join("into")).unwrap();
        symlink("/etc", checkout.join("out")).unwrap();
        symlink("checkout/out", dir.join("through")).unwrap();
        let place = |path: &str| resolve(&dir.join(path), &checkout).map_err(|error| error.to_string());
        let inside = |steps: &[&str]| Ok(Place::Inside(steps.iter().map(OsString::from).collect()));
        assert_eq!(place("link"), Ok(Place::Outside(dir.join("dotfiles"))));
        assert_eq!(place("link/../link"), Ok(Place::Outside(dir.join("dotfiles"))));
        assert_eq!(place("into/sub/../x"), inside(&["x"]));
        // The link in the checkout stays a step, for the reader to refuse.
        assert_eq!(place("checkout/out/passwd"), inside(&["out", "passwd"]));
        assert_eq!(place("through/passwd"), inside(&["out", "passwd"]));
        assert!(place("into/../dotfiles").is_err());
        symlink("circle", dir.join("circle")).unwrap();
        assert!(place("circle").unwrap_err().contains("circles"));
        assert!(place("missing").is_err());
    }
}

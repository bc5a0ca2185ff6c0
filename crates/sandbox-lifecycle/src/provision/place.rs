//! Where a path of the host leads, without letting whoever works in a sandbox decide it.

use std::ffi::OsString;
use std::io::{Error, Result};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use sandbox_files::Walk;

/// Where a path leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Outside the walls: an absolute path without links.
    Outside(PathBuf),
    /// A wall, and steps below it. Whatever stands there may be exchanged for a link at any moment, so none of them
    /// may be followed.
    Inside(PathBuf, Vec<OsString>),
}

impl Place {
    /// The wall in which it is.
    pub fn wall(&self) -> Option<&Path> {
        match self {
            Self::Outside(_) => None,
            Self::Inside(wall, _) => Some(wall),
        }
    }
}

/// Follows the links of `path` one by one, as far as a wall: a folder that a sandbox can write, or could. They are
/// absolute paths without links; of two of which one is in the other, the outer one counts.
pub fn resolve(path: &Path, walls: &[PathBuf]) -> Result<Place> {
    let mut walk = Walk::new(path);
    // Each begins at the top of the disk, so it comes to the outer one first.
    while !walls.iter().any(|wall| walk.at() == wall) {
        if walk.step()?.is_none() {
            return Ok(Place::Outside(walk.into_parts().0));
        }
    }
    let (at, todo) = walk.into_parts();
    let mut inside: Vec<OsString> = Vec::new();
    for step in todo {
        if step != ".." {
            inside.push(step);
        } else if inside.pop().is_none() {
            return Err(Error::other(format!(
                "{} leads through {}, where a sandbox can write, and out of it",
                path.display(),
                at.display()
            )));
        }
    }
    Ok(Place::Inside(at, inside))
}

/// Opens what is at a place to read it. A link there, put there since or below a wall, is [`Errno::LOOP`], and what
/// is no file or folder keeps nobody waiting.
pub fn open(place: &Place) -> std::result::Result<OwnedFd, Errno> {
    let unlinked = ResolveFlags::NO_SYMLINKS;
    match place {
        Place::Outside(path) => openat2(CWD, path, FLAGS, Mode::empty(), unlinked),
        Place::Inside(wall, steps) if steps.is_empty() => openat2(CWD, wall, FLAGS, Mode::empty(), unlinked),
        Place::Inside(wall, steps) => {
            // With NOFOLLOW a link were no folder, which says less.
            let folder = FLAGS.difference(OFlags::NOFOLLOW) | OFlags::DIRECTORY;
            let wall = openat2(CWD, wall, folder, Mode::empty(), unlinked)?;
            let below: PathBuf = steps.iter().collect();
            openat2(wall, below, FLAGS, Mode::empty(), unlinked | ResolveFlags::BENEATH)
        }
    }
}

/// Without NONBLOCK a named pipe would keep us here for ever.
pub const FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOFOLLOW);

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
        // The inner one of two says nothing more.
        let walls = [checkout.join("sub"), checkout.clone(), dir.join("elsewhere")];
        let place = |path: &str| resolve(&dir.join(path), &walls).map_err(|error| error.to_string());
        let inside =
            |steps: &[&str]| Ok(Place::Inside(checkout.clone(), steps.iter().map(OsString::from).collect()));
        assert_eq!(place("link"), Ok(Place::Outside(dir.join("dotfiles"))));
        assert_eq!(place("link/../link"), Ok(Place::Outside(dir.join("dotfiles"))));
        assert_eq!(place("into/../checkout").ok(), None);
        assert_eq!(place("checkout"), inside(&[]));
        assert_eq!(place("into/sub/../x"), inside(&["x"]));
        // The link in the checkout stays a step, for the reader to refuse.
        assert_eq!(place("checkout/out/passwd"), inside(&["out", "passwd"]));
        assert_eq!(place("through/passwd"), inside(&["out", "passwd"]));
        assert!(place("into/../dotfiles").is_err());
        symlink("circle", dir.join("circle")).unwrap();
        assert!(place("circle").unwrap_err().contains("circles"));
        assert!(place("missing").is_err());
    }

    #[test]
    fn what_became_a_link_since_is_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        fs_err::create_dir_all(dir.join("a/b")).unwrap();
        fs_err::write(dir.join("a/b/file"), "").unwrap();
        let inside = |wall: &str, steps: &[&str]| {
            Place::Inside(dir.join(wall), steps.iter().map(OsString::from).collect())
        };
        let places = [
            Place::Outside(dir.join("a/b/file")),
            inside("a", &["b", "file"]),
            inside("a/b", &["file"]),
            inside("a/b", &[]),
            inside("a/b/file", &[]),
        ];
        for place in &places {
            open(place).unwrap();
        }
        fs_err::rename(dir.join("a/b"), dir.join("moved")).unwrap();
        symlink("../moved", dir.join("a/b")).unwrap();
        for place in &places {
            assert_eq!(open(place).unwrap_err(), Errno::LOOP, "{place:?}");
        }
    }
}

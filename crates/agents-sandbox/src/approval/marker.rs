//! What is remembered of a folder that is the whole checkout of a sandbox: outside it, where no guest writes.
//!
//! ```text
//! /home/me/shop ␀ =2 ␀ shop-2f… ␀ shop-9a… ␀ remote=shop-1c… ␀ repository=/home/me/shop.git ␀ =.
//! the folder           the names that it had, the last one last
//! ```
//!
//! The older ones are the folder and the names alone.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use fs_err as fs;
use sandbox_lifecycle::Project;
use sandbox_model::CheckoutSlug;
use sandbox_state::{Layout, StateError, write_private};

/// Which form it has, and that this is all of it.
const BEGIN: &[u8] = b"=2";
const END: &[u8] = b"=.";
const REMOTE: &[u8] = b"remote=";
const REPOSITORY: &[u8] = b"repository=";

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Marker {
    /// The last one last.
    pub names: Vec<CheckoutSlug>,
    /// Which of the user's settings for one remote it had last; `None` where nobody wrote that down.
    pub remote: Option<String>,
    /// Which repository in another folder it had last, an empty path for none; `None` where nobody wrote that down.
    pub repository: Option<PathBuf>,
}

impl Marker {
    /// `None`: the folder was none so far. What is there and cannot be read says nothing of it.
    pub fn read(layout: &Layout, folder: &Path) -> Option<Self> {
        let content = match fs::read(layout.checkout_root(folder)) {
            Ok(content) => content,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(_) => Vec::new(),
        };
        let mut marker = Self::default();
        if !is_whole(&content, folder) {
            return Some(marker);
        }
        for word in content.split(|byte| *byte == 0).skip(1) {
            if let Some(remote) = word.strip_prefix(REMOTE) {
                marker.remote = Some(String::from_utf8_lossy(remote).into_owned());
            } else if let Some(path) = word.strip_prefix(REPOSITORY) {
                marker.repository = Some(OsStr::from_bytes(path).into());
            } else if let Some(name) = std::str::from_utf8(word).ok().and_then(|word| word.parse().ok()) {
                marker.names.push(name);
            }
        }
        Some(marker)
    }

    /// What is true of a project as it is now, with the names that it had.
    pub fn of(project: &Project, mut names: Vec<CheckoutSlug>) -> Self {
        names.retain(|name| *name != project.checkout);
        names.push(project.checkout.clone());
        let remote = project.repo.as_ref().map(|repo| repo.as_str().to_owned());
        Self { names, remote, repository: Some(outside(project).map(Path::to_path_buf).unwrap_or_default()) }
    }

    /// Fails where something else is in its place, and leaves that alone.
    pub fn write(&self, layout: &Layout, folder: &Path) -> Result<(), StateError> {
        let path = layout.checkout_root(folder);
        check(&path, folder)?;
        let mut content = folder.as_os_str().as_bytes().to_vec();
        let mut add = |head: &[u8], word: &[u8]| {
            content.push(0);
            content.extend(head);
            content.extend(word);
        };
        add(b"", BEGIN);
        for name in &self.names {
            add(b"", name.as_str().as_bytes());
        }
        if let Some(remote) = &self.remote {
            add(REMOTE, remote.as_bytes());
        }
        if let Some(repository) = &self.repository {
            add(REPOSITORY, repository.as_os_str().as_bytes());
        }
        add(b"", END);
        write_private(&path, &content)
    }
}

/// The repository of a checkout that is in another folder.
pub fn outside(project: &Project) -> Option<&Path> {
    let path = project.repository.as_ref()?.path.as_path();
    (!path.starts_with(&project.root)).then_some(path)
}

/// A name that was cut short may be a name.
fn is_whole(content: &[u8], folder: &Path) -> bool {
    let mut words = content.split(|byte| *byte == 0);
    if words.next() != Some(folder.as_os_str().as_bytes()) {
        return false;
    }
    match words.next() {
        Some(word) if word.starts_with(b"=") => word == BEGIN && words.next_back() == Some(END),
        name => name.is_some_and(|name| !name.is_empty()),
    }
}

/// A marker is this folder's, or it is broken: then it is not written over.
pub fn check(marker: &Path, folder: &Path) -> Result<(), StateError> {
    let problem = match fs::read(marker) {
        Ok(content) if is_whole(&content, folder) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Ok(_) => "it is not the record of this folder".to_string(),
        Err(error) => error.to_string(),
    };
    Err(StateError::Malformed { path: marker.into(), problem })
}

#[cfg(test)]
mod tests {
    use sandbox_state::Environment;

    use super::*;

    #[test]
    fn a_marker_comes_back_and_an_older_one_says_less() {
        let dir = tempfile::tempdir().unwrap();
        let home = Some(dir.path().to_path_buf());
        let layout = Layout::new(&Environment { home, ..Environment::default() }).unwrap();
        let folder = Path::new("/d/shop");
        assert_eq!(Marker::read(&layout, folder), None);
        let names = vec!["shop-1".parse().unwrap(), "shop-2".parse().unwrap()];
        for repository in [Path::new(""), Path::new(OsStr::from_bytes(b"/d/odd \xff"))] {
            let marker = Marker {
                names: names.clone(),
                remote: Some("shop-3".into()),
                repository: Some(repository.into()),
            };
            marker.write(&layout, folder).unwrap();
            assert_eq!(Marker::read(&layout, folder), Some(marker.clone()));
            let whole = fs::read(layout.checkout_root(folder)).unwrap();
            for end in 0..whole.len() {
                fs::write(layout.checkout_root(folder), &whole[..end]).unwrap();
                assert_eq!(Marker::read(&layout, folder), Some(Marker::default()), "{end}");
                assert!(marker.write(&layout, folder).is_err(), "{end}");
            }
            fs::write(layout.checkout_root(folder), whole).unwrap();
        }
        fs::write(layout.checkout_root(folder), b"/d/shop\0shop-1\0shop-2").unwrap();
        let old = Marker { names, ..Marker::default() };
        assert_eq!(Marker::read(&layout, folder), Some(old.clone()));
        fs::write(layout.checkout_root(folder), b"nonsense").unwrap();
        assert_eq!(Marker::read(&layout, folder), Some(Marker::default()));
        assert!(old.write(&layout, folder).is_err());
    }
}

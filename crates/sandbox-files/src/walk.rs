use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{Error, ErrorKind, Result};
use std::path::{Component, Path, PathBuf};

/// As many links as Linux follows.
const MOST_LINKS: usize = 40;

/// Follows an absolute path, one step at a time: what it tells of the links is what it followed itself, and asking
/// again would leave time to exchange them.
#[derive(Debug)]
pub struct Walk {
    at: PathBuf,
    todo: VecDeque<OsString>,
    links: usize,
}

/// What the last step was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Into something that is no link, or up.
    Into,
    /// Through the link that stands there: an absolute path whose folders are without links.
    Through(PathBuf),
}

impl Walk {
    /// At `/`, with all of `path` before it; nothing is looked at yet. A relative path is taken from `/` as
    /// well.
    pub fn new(path: &Path) -> Self {
        Self { at: PathBuf::from("/"), todo: steps(path), links: 0 }
    }

    /// Where it is: an absolute path without links.
    pub fn at(&self) -> &Path {
        &self.at
    }

    /// The next step; `None` at the end. After an error it stands where it stood, and the step is still to do.
    pub fn step(&mut self) -> Result<Option<Step>> {
        let Some(step) = self.todo.front() else { return Ok(None) };
        if step == ".." {
            self.at.pop();
            self.todo.pop_front();
            return Ok(Some(Step::Into));
        }
        let next = self.at.join(step);
        let target = match std::fs::read_link(&next) {
            Ok(target) => target,
            // It is there, and no link.
            Err(error) if error.kind() == ErrorKind::InvalidInput => {
                self.at = next;
                self.todo.pop_front();
                return Ok(Some(Step::Into));
            }
            Err(error) => return Err(error),
        };
        if self.links == MOST_LINKS {
            return Err(Error::other("its links lead in circles"));
        }
        self.links += 1;
        self.todo.pop_front();
        if target.is_absolute() {
            self.at = PathBuf::from("/");
        }
        let mut target = steps(&target);
        target.append(&mut self.todo);
        self.todo = target;
        Ok(Some(Step::Through(next)))
    }

    /// Where it is, and what was not walked.
    pub fn into_parts(self) -> (PathBuf, VecDeque<OsString>) {
        (self.at, self.todo)
    }
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
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn each_link_is_a_step_and_an_error_moves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        fs::create_dir(dir.join("real")).unwrap();
        symlink("real", dir.join("one")).unwrap();
        let mut walk = Walk::new(&dir.join("one/../gone/below"));
        let mut through = Vec::new();
        let error = loop {
            match walk.step() {
                Ok(Some(Step::Through(link))) => through.push(link),
                Ok(Some(Step::Into)) => {}
                Ok(None) => panic!("it ends where nothing is"),
                Err(error) => break error,
            }
        };
        assert_eq!((error.kind(), through), (ErrorKind::NotFound, vec![dir.join("one")]));
        assert_eq!(walk.into_parts(), (dir, VecDeque::from(["gone".into(), "below".into()])));
    }

    #[test]
    fn a_circle_ends() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        symlink("circle", dir.join("circle")).unwrap();
        let mut walk = Walk::new(&dir.join("circle"));
        let error = loop {
            match walk.step() {
                Ok(step) => assert!(step.is_some(), "it has no end"),
                Err(error) => break error.to_string(),
            }
        };
        assert!(error.contains("circles"), "{error}");
    }
}

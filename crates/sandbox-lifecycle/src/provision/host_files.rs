//! Reading a folder of the host that its own owner does not always control.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, FileType, Mode, OFlags, fstat, openat};
use rustix::io::Errno;

use crate::{LifecycleError, Result};

/// Configuration is small. More than this is a mistake, or someone who wants us to read for ever.
const MAX_BYTES: u64 = 16 << 20;
const MAX_FILES: usize = 4000;
const MAX_DEPTH: usize = 16;

/// Whether symbolic links are what they point to, or nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    Follow,
    Refuse,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostFile {
    /// Relative to the folder.
    pub path: PathBuf,
    /// Permission bits.
    pub mode: u32,
    pub content: Vec<u8>,
    /// For messages.
    pub source: PathBuf,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// By path.
    pub files: Vec<HostFile>,
    /// Sentences for people: what was left out, and why.
    pub skipped: Vec<String>,
}

/// Reads every file below `root`/`steps`. The root itself is trusted; with [`Links::Refuse`] no link below
/// it is followed, at no moment, whatever is exchanged meanwhile. A folder that does not exist is empty.
pub fn read_tree(root: &Path, steps: &[&str], links: Links) -> Result<Tree> {
    let mut reader = Reader { links, tree: Tree::default(), bytes: 0 };
    let mut place = root.to_path_buf();
    let mut dir = match rustix::fs::open(root, dir_flags(Links::Follow), Mode::empty()) {
        Ok(dir) => dir,
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(reader.tree),
        Err(error) => return Err(failed(&place, error)),
    };
    for step in steps {
        place.push(step);
        dir = match openat(&dir, *step, dir_flags(links), Mode::empty()) {
            Ok(dir) => dir,
            Err(Errno::NOENT) => return Ok(reader.tree),
            Err(Errno::NOTDIR | Errno::LOOP) => {
                reader.tree.skipped.push(format!("{} is not a folder", place.display()));
                return Ok(reader.tree);
            }
            Err(error) => return Err(failed(&place, error)),
        };
    }
    reader.read_dir(&dir, &place, Path::new(""), 0)?;
    reader.tree.files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(reader.tree)
}

fn dir_flags(links: Links) -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | no_follow(links)
}

fn no_follow(links: Links) -> OFlags {
    if links == Links::Refuse { OFlags::NOFOLLOW } else { OFlags::empty() }
}

fn failed(path: &Path, error: Errno) -> LifecycleError {
    let problem = std::io::Error::from(error).to_string();
    LifecycleError::Snippet { path: path.into(), problem }
}

struct Reader {
    links: Links,
    tree: Tree,
    bytes: u64,
}

impl Reader {
    fn read_dir(&mut self, dir: &OwnedFd, place: &Path, relative: &Path, depth: usize) -> Result<()> {
        let mut names: Vec<OsString> = Vec::new();
        for entry in Dir::read_from(dir).map_err(|error| failed(place, error))? {
            let entry = entry.map_err(|error| failed(place, error))?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(OsString::from_vec(name.to_vec()));
            }
        }
        names.sort();
        for name in names {
            self.read_entry(dir.as_fd(), &name, &place.join(&name), relative.join(&name), depth)?;
        }
        Ok(())
    }

    fn read_entry(
        &mut self,
        dir: BorrowedFd<'_>,
        name: &OsStr,
        place: &Path,
        relative: PathBuf,
        depth: usize,
    ) -> Result<()> {
        // Without NONBLOCK a named pipe would keep us here for ever.
        let flags =
            OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC | no_follow(self.links);
        let opened = match openat(dir, name, flags, Mode::empty()) {
            Ok(opened) => opened,
            Err(error) => {
                let why = match error {
                    Errno::LOOP => "is a symbolic link",
                    Errno::NOENT => "points to nothing",
                    Errno::NXIO => "is no file",
                    error => return Err(failed(place, error)),
                };
                self.skip(place, why);
                return Ok(());
            }
        };
        let stat = fstat(&opened).map_err(|error| failed(place, error))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory if depth < MAX_DEPTH => {
                return self.read_dir(&opened, place, &relative, depth + 1);
            }
            FileType::Directory => self.skip(place, "is too deep"),
            FileType::RegularFile => {
                return self.read_file(File::from(opened), place, relative, stat.st_mode & 0o777);
            }
            _ => self.skip(place, "is no file"),
        }
        Ok(())
    }

    fn read_file(&mut self, file: File, place: &Path, path: PathBuf, mode: u32) -> Result<()> {
        let problem = |problem: String| LifecycleError::Snippet { path: place.into(), problem };
        let mut content = Vec::new();
        file.take(MAX_BYTES + 1).read_to_end(&mut content).map_err(|error| problem(error.to_string()))?;
        self.bytes += content.len() as u64;
        if self.bytes > MAX_BYTES || self.tree.files.len() >= MAX_FILES {
            return Err(problem(format!(
                "with it the agent's configuration is more than {MAX_FILES} files or {} MiB",
                MAX_BYTES >> 20
            )));
        }
        self.tree.files.push(HostFile { path, mode, content, source: place.into() });
        Ok(())
    }

    fn skip(&mut self, place: &Path, why: &str) {
        self.tree.skipped.push(format!("{} {why}", place.display()));
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn names(tree: &Tree) -> Vec<&str> {
        tree.files.iter().map(|file| file.path.to_str().unwrap()).collect()
    }

    #[test]
    fn a_missing_folder_is_empty() {
        let dir = tempfile::tempdir().unwrap();
        for root in [dir.path(), &dir.path().join("missing")] {
            assert_eq!(read_tree(root, &["opencode"], Links::Refuse).unwrap(), Tree::default());
        }
    }

    #[test]
    fn links_lead_out_of_the_users_folder_and_not_out_of_the_projects() {
        let dir = tempfile::tempdir().unwrap();
        let secret = dir.path().join("secret");
        std::fs::create_dir(&secret).unwrap();
        std::fs::write(secret.join("key"), "private").unwrap();
        let config = dir.path().join("opencode");
        std::fs::create_dir_all(config.join("agent")).unwrap();
        std::fs::write(config.join("agent/a.md"), "hello").unwrap();
        symlink(secret.join("key"), config.join("file")).unwrap();
        symlink(&secret, config.join("folder")).unwrap();

        let followed = read_tree(dir.path(), &["opencode"], Links::Follow).unwrap();
        assert_eq!(names(&followed), ["agent/a.md", "file", "folder/key"]);
        let refused = read_tree(dir.path(), &["opencode"], Links::Refuse).unwrap();
        assert_eq!(names(&refused), ["agent/a.md"]);
        assert_eq!(refused.skipped.len(), 2, "{:?}", refused.skipped);
    }

    #[test]
    fn the_folder_itself_may_not_be_a_link_either() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().join("real/opencode");
        std::fs::create_dir_all(&real).unwrap();
        std::fs::write(real.join("x"), "1").unwrap();
        symlink(dir.path().join("real"), dir.path().join(".agents-sandbox")).unwrap();
        let steps = [".agents-sandbox", "opencode"];
        assert_eq!(names(&read_tree(dir.path(), &steps, Links::Follow).unwrap()), ["x"]);
        let refused = read_tree(dir.path(), &steps, Links::Refuse).unwrap();
        assert_eq!((names(&refused), refused.skipped.len()), (vec![], 1));
    }

    #[test]
    fn a_pipe_does_not_hold_us_and_a_loop_ends() {
        let dir = tempfile::tempdir().unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, dir.path().join("pipe"), Mode::RUSR | Mode::WUSR).unwrap();
        symlink(dir.path(), dir.path().join("loop")).unwrap();
        let tree = read_tree(dir.path(), &[], Links::Follow).unwrap();
        assert_eq!(names(&tree), Vec::<&str>::new());
        assert!(tree.skipped.iter().any(|skipped| skipped.ends_with("is too deep")), "{:?}", tree.skipped);
    }
}

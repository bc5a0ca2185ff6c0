//! Reading files of the host, some of which whoever works in a sandbox can write.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, FileType, Mode, fstat, openat};
use rustix::io::Errno;

use super::place::{FLAGS, Place, open, resolve};
use crate::{LifecycleError, Result};

/// Configuration is small. More than this is a mistake, or someone who wants us to read for ever.
const MAX_BYTES: u64 = 16 << 20;
const MAX_FILES: usize = 4000;
const MAX_DEPTH: usize = 16;

/// One file of the host, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostFile {
    /// Relative to what was read; empty where that is a file itself.
    pub path: PathBuf,
    /// Permission bits.
    pub mode: u32,
    pub content: Vec<u8>,
    /// For messages.
    pub source: PathBuf,
}

/// What was read below one path.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// By path.
    pub files: Vec<HostFile>,
    /// Folders and their permission bits, that which was read included (as an empty path).
    pub folders: Vec<(PathBuf, u32)>,
    /// Sentences for people: what was left out, and why.
    pub skipped: Vec<String>,
}

impl Tree {
    /// There is nothing at all at that place.
    pub fn is_missing(&self) -> bool {
        *self == Self::default()
    }
}

/// Reads the file at `source`, or every file below it. Links are followed, but none of those that whoever works in
/// a sandbox can have made: from one of the `walls` on, the folders that a sandbox writes, no link is, at no moment,
/// whatever is exchanged meanwhile. What does not exist is empty.
pub fn read_tree(source: &Path, walls: &[PathBuf]) -> Result<Tree> {
    let mut reader = Reader { walls, wall: None, tree: Tree::default(), bytes: 0 };
    reader.read_path(source, source, Path::new(""), 0)?;
    reader.tree.files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(reader.tree)
}

/// Opens one file of the host, following its links as [`read_tree`] does. Says in words why it cannot be opened.
pub fn open_host_file(source: &Path, walls: &[PathBuf]) -> std::result::Result<File, String> {
    let place = resolve(source, walls).map_err(|error| error.to_string())?;
    match open(&place) {
        Ok(opened) => Ok(File::from(opened)),
        Err(Errno::LOOP) => Err(match place.wall() {
            Some(wall) => format!(
                "it leads through a link in {}, which a sandbox writes or once wrote, so whoever works there can have \
                 made it",
                wall.display()
            ),
            None => "it leads through a link that was made this very moment".into(),
        }),
        Err(error) => Err(std::io::Error::from(error).to_string()),
    }
}

fn failed(path: &Path, error: impl Into<std::io::Error>) -> LifecycleError {
    let problem = error.into().to_string();
    LifecycleError::Snippet { path: path.into(), problem }
}

struct Reader<'a> {
    walls: &'a [PathBuf],
    /// The one in which the reader is.
    wall: Option<PathBuf>,
    tree: Tree,
    bytes: u64,
}

impl Reader<'_> {
    /// `path` is what is opened, `place` what people call it.
    fn read_path(&mut self, path: &Path, place: &Path, relative: &Path, depth: usize) -> Result<()> {
        let found = match resolve(path, self.walls) {
            Ok(found) => found,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                // A link to nothing is worth a word, a place where nothing was put is not.
                if depth > 0 {
                    self.skip(place, "points to nothing");
                }
                return Ok(());
            }
            Err(error) => return Err(failed(place, error)),
        };
        let follow = matches!(found, Place::Outside(_));
        let outer = std::mem::replace(&mut self.wall, found.wall().map(Path::to_path_buf));
        let read = match open(&found) {
            Ok(opened) => self.read_opened(opened, place, relative, depth, follow),
            Err(Errno::NOENT) if !follow => Ok(()),
            Err(error) => self.not_opened(place, error),
        };
        self.wall = outer;
        read
    }

    fn read_opened(
        &mut self,
        opened: OwnedFd,
        place: &Path,
        relative: &Path,
        depth: usize,
        follow: bool,
    ) -> Result<()> {
        let stat = fstat(&opened).map_err(|error| failed(place, error))?;
        let mode = stat.st_mode & 0o777;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory if depth < MAX_DEPTH => {
                self.tree.folders.push((relative.into(), mode));
                return self.read_dir(&opened, place, relative, depth, follow);
            }
            FileType::Directory => self.skip(place, "is too deep"),
            FileType::RegularFile => return self.read_file(File::from(opened), place, relative, mode),
            _ => self.skip(place, "is no file"),
        }
        Ok(())
    }

    fn read_dir(
        &mut self,
        dir: &OwnedFd,
        place: &Path,
        relative: &Path,
        depth: usize,
        follow: bool,
    ) -> Result<()> {
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
            let (place, relative) = (place.join(&name), relative.join(&name));
            self.read_entry(dir.as_fd(), &name, &place, &relative, depth + 1, follow)?;
        }
        Ok(())
    }

    fn read_entry(
        &mut self,
        dir: BorrowedFd<'_>,
        name: &OsStr,
        place: &Path,
        relative: &Path,
        depth: usize,
        follow: bool,
    ) -> Result<()> {
        match openat(dir, name, FLAGS, Mode::empty()) {
            Ok(opened) => self.read_opened(opened, place, relative, depth, follow),
            Err(Errno::LOOP) if follow => self.read_path(place, place, relative, depth),
            Err(error) => self.not_opened(place, error),
        }
    }

    fn read_file(&mut self, file: File, place: &Path, path: &Path, mode: u32) -> Result<()> {
        let problem = |problem: String| LifecycleError::Snippet { path: place.into(), problem };
        let mut content = Vec::new();
        file.take(MAX_BYTES + 1).read_to_end(&mut content).map_err(|error| problem(error.to_string()))?;
        self.bytes += content.len() as u64;
        if self.bytes > MAX_BYTES || self.tree.files.len() >= MAX_FILES {
            return Err(problem(format!(
                "with it there are more than {MAX_FILES} files or {} MiB to copy",
                MAX_BYTES >> 20
            )));
        }
        self.tree.files.push(HostFile { path: path.into(), mode, content, source: place.into() });
        Ok(())
    }

    fn not_opened(&mut self, place: &Path, error: Errno) -> Result<()> {
        let why = match error {
            Errno::LOOP => match &self.wall {
                Some(wall) => {
                    let wall = wall.display();
                    let why = format!(
                        "is a symbolic link, or leads through one, in {wall}, which a sandbox writes or once wrote"
                    );
                    self.skip(place, &why);
                    return Ok(());
                }
                None => "became a symbolic link while it was read",
            },
            // A file is where a folder should be.
            Errno::NOTDIR => "is not in a folder",
            Errno::NOENT => "is gone",
            Errno::NXIO => "is no file",
            error => return Err(failed(place, error)),
        };
        self.skip(place, why);
        Ok(())
    }

    fn skip(&mut self, place: &Path, why: &str) {
        self.tree.skipped.push(format!("{} {why}", place.display()));
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn names(tree: &Tree) -> Vec<&str> {
        tree.files.iter().map(|file| file.path.to_str().unwrap()).collect()
    }

    fn folder(path: &Path) {
        std::fs::create_dir_all(path).unwrap();
    }

    #[test]
    fn what_is_missing_is_empty() {
        let dir = tempfile::tempdir().unwrap();
        let checkout = dir.path().join("checkout");
        folder(&checkout);
        for place in ["missing", "missing/deep", "checkout/missing", "checkout/missing/deep"] {
            assert!(
                read_tree(&dir.path().join(place), std::slice::from_ref(&checkout)).unwrap().is_missing(),
                "{place}"
            );
        }
    }

    #[test]
    fn a_file_is_itself_and_bits_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tool");
        std::fs::write(&file, "x").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o750)).unwrap();
        let tree = read_tree(&file, &[]).unwrap();
        assert_eq!((names(&tree), tree.files[0].mode, tree.folders.len()), (vec![""], 0o750, 0));
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
        let tree = read_tree(dir.path(), &[]).unwrap();
        assert_eq!((names(&tree), tree.folders.clone()), (vec!["tool"], vec![(PathBuf::new(), 0o700)]));
    }

    #[test]
    fn links_lead_out_of_the_users_folder_and_not_out_of_the_projects() {
        let dir = tempfile::tempdir().unwrap();
        let secret = dir.path().join("secret");
        folder(&secret);
        std::fs::write(secret.join("key"), "private").unwrap();
        let config = dir.path().join("opencode");
        folder(&config.join("agent"));
        std::fs::write(config.join("agent/a.md"), "hello").unwrap();
        symlink(secret.join("key"), config.join("file")).unwrap();
        symlink(&secret, config.join("folder")).unwrap();

        let followed = read_tree(&config, &[]).unwrap();
        assert_eq!(names(&followed), ["agent/a.md", "file", "folder/key"]);
        let refused = read_tree(&config, &[dir.path().into()]).unwrap();
        assert_eq!(names(&refused), ["agent/a.md"]);
        assert_eq!(refused.skipped.len(), 2, "{:?}", refused.skipped);
        // Whoever reads it looks there.
        let named = format!("in {}, which a sandbox writes", dir.path().display());
        assert!(refused.skipped.iter().all(|line| line.contains(&named)), "{:?}", refused.skipped);
        // The user's link into a checkout, where a link leads out again.
        symlink(config.join("folder/key"), dir.path().join("mine")).unwrap();
        let mine = dir.path().join("mine");
        assert_eq!(names(&read_tree(&mine, &[]).unwrap()), [""]);
        let through = read_tree(&mine, std::slice::from_ref(&config)).unwrap();
        assert_eq!((names(&through), through.skipped.len()), (vec![], 1), "{:?}", through.skipped);
    }

    #[test]
    fn the_folder_itself_may_not_be_a_link_either() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().join("real/opencode");
        folder(&real);
        std::fs::write(real.join("x"), "1").unwrap();
        symlink(dir.path().join("real"), dir.path().join(".agents-sandbox")).unwrap();
        let source = dir.path().join(".agents-sandbox/opencode");
        assert_eq!(names(&read_tree(&source, &[]).unwrap()), ["x"]);
        let refused = read_tree(&source, &[dir.path().into()]).unwrap();
        assert_eq!((names(&refused), refused.skipped.len()), (vec![], 1));
    }

    #[test]
    fn one_file_is_opened_through_the_users_links_alone() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        folder(&dir.join("open"));
        std::fs::write(dir.join("key"), "x").unwrap();
        symlink("../key", dir.join("open/link")).unwrap();
        symlink("open", dir.join("mine")).unwrap();
        std::fs::write(dir.join("open/token"), "x").unwrap();
        let walls = [dir.join("open")];
        open_host_file(&dir.join("open/link"), &[]).unwrap();
        open_host_file(&dir.join("mine/token"), &walls).unwrap();
        for path in ["open/link", "mine/link"] {
            let problem = open_host_file(&dir.join(path), &walls).unwrap_err();
            assert!(
                problem.contains("it leads through a link in ") && problem.contains("which a sandbox writes"),
                "{path}: {problem}"
            );
        }
        assert!(open_host_file(&dir.join("none"), &walls).unwrap_err().contains("No such file"));
        assert!(open_host_file(&dir.join("open/none"), &walls).unwrap_err().contains("No such file"));
    }

    #[test]
    fn a_pipe_does_not_hold_us_and_a_loop_ends() {
        let dir = tempfile::tempdir().unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, dir.path().join("pipe"), Mode::RUSR | Mode::WUSR).unwrap();
        symlink(dir.path(), dir.path().join("loop")).unwrap();
        let tree = read_tree(dir.path(), &[]).unwrap();
        assert_eq!(names(&tree), Vec::<&str>::new());
        assert!(tree.skipped.iter().any(|skipped| skipped.ends_with("is too deep")), "{:?}", tree.skipped);
    }
}

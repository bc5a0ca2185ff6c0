use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use gix::bstr::BString;
use gix::config::file::Metadata;
use gix::discover::path::{from_gitdir_file, from_plain_file};

use crate::{CheckoutError, read};

/// What is read from one git directory. Nothing its configuration names is run or included.
#[derive(Debug)]
pub struct GitDir {
    /// Resolved. For a linked worktree this is the private directory of that worktree.
    pub path: PathBuf,
    /// Resolved. The directory that all worktrees of the repository share; `path` itself in the main one.
    pub common: PathBuf,
    /// `core.bare`; where it is not set, git's own guess from the directory's name.
    pub bare: bool,
    /// `core.worktree`, as far as no link is on the way; only submodules have it in practice.
    pub work_tree: Option<PathBuf>,
    /// The first URL of the remote `origin`, as it is written.
    pub origin: Option<BString>,
}

impl GitDir {
    /// Reads the git directory that `path` is, or that the file `path` points to (`gitdir: …`).
    /// `None`: it is neither, and git would look further up.
    pub fn read(path: &Path) -> Result<Option<Self>, CheckoutError> {
        let Some(metadata) = read::metadata(path)? else {
            return if path.is_symlink() { Err(dangling(path)) } else { Ok(None) };
        };
        if metadata.is_dir() {
            return if is_repository(path)? { Self::open(path).map(Some) } else { Ok(None) };
        }
        if !metadata.is_file() {
            return Ok(None);
        }
        // Read first with a guard: the library's reader would wait on a pipe.
        read::file(path)?;
        let target = from_gitdir_file(path).map_err(|error| CheckoutError::MalformedPointer {
            path: path.into(),
            reason: error.to_string(),
        })?;
        if is_repository(&target)? {
            Self::open(&target).map(Some)
        } else {
            Err(CheckoutError::PointsNowhere { path: path.into(), target })
        }
    }

    fn open(path: &Path) -> Result<Self, CheckoutError> {
        let path = read::resolve(path)?;
        let common = common_dir(&path)?;
        // It was looked at before, and may be another by now: whoever works in the checkout can be at it.
        if common != path && !is_shared_by_worktrees(&common) {
            return Err(CheckoutError::PointsNowhere { path: path.join("commondir"), target: common });
        }
        let config = read_config(&common.join("config"))?;
        let work_tree = config.raw_value("core.worktree").ok().and_then(|tree| {
            let tree = without_dots(&common.join(gix::path::from_bstring(tree).ok()?));
            // As git writes it: a link on the way may be of whoever works in the checkout.
            fs_err::canonicalize(&tree).ok().filter(|real| *real == tree)
        });
        let bare = match config.boolean("core.bare") {
            Ok(Some(bare)) => bare,
            _ => work_tree.is_none() && common.file_name() != Some(OsStr::new(".git")),
        };
        let urls = config.raw_values("remote.origin.url").unwrap_or_default();
        let origin = urls.into_iter().find(|url| !url.is_empty());
        Ok(Self { path, common, bare, work_tree, origin })
    }

    /// This is the private directory of a linked worktree whose pointer is `dot_git`, and the repository
    /// knows that worktree. Both ends are needed: a worktree's own pointer is written by whoever works in
    /// it, and could name any repository of the machine. For the same reason the other end is not in the
    /// worktree itself.
    pub fn is_worktree_of(&self, dot_git: &Path) -> bool {
        let own = dot_git.parent().is_some_and(|folder| self.path.starts_with(folder));
        if own || self.path.parent() != Some(&self.common.join("worktrees")) {
            return false;
        }
        let Ok(Some(bytes)) = read::file(&self.path.join("gitdir")) else { return false };
        let back = self.path.join(OsStr::from_bytes(bytes.trim_ascii_end()));
        // Compared as it is written, as git writes it: without links. To resolve what stands in the worktree would
        // follow its links, and with them it could be any other worktree of this repository.
        without_dots(&back) == dot_git
            && std::fs::symlink_metadata(dot_git).is_ok_and(|found| found.is_file())
    }

    /// Whether this is the private directory of one worktree, beside the one that all of them share.
    pub fn is_linked(&self) -> bool {
        self.path != self.common
    }
}

/// `path` with `.` and `..` taken out by name alone, as they are written.
fn without_dots(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => _ = clean.pop(),
            other => clean.push(other),
        }
    }
    clean
}

/// git's own test: `HEAD`, `objects` and `refs`, the latter two possibly in the shared directory.
fn is_repository(path: &Path) -> Result<bool, CheckoutError> {
    // A readable `HEAD` first: it tells "not a repository" from "a repository that may not be read".
    match read::file(&path.join("HEAD")) {
        Ok(Some(_)) => Ok(gix::discover::is_git(path).is_ok()),
        Ok(None) => Ok(false),
        Err(CheckoutError::Unreadable { source, .. })
            if source.kind() == std::io::ErrorKind::InvalidInput =>
        {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

fn is_shared_by_worktrees(common: &Path) -> bool {
    let is_folder = |name| common.join(name).is_dir();
    is_folder("objects") && is_folder("refs") && std::fs::symlink_metadata(common.join("HEAD")).is_ok()
}

fn common_dir(path: &Path) -> Result<PathBuf, CheckoutError> {
    let pointer = path.join("commondir");
    if read::file(&pointer)?.is_none() {
        return Ok(path.into());
    }
    match from_plain_file(&pointer) {
        Some(Ok(common)) => read::resolve(&path.join(common)),
        Some(Err(source)) => Err(CheckoutError::Unreadable { path: pointer, source }),
        None => Ok(path.into()),
    }
}

fn read_config(path: &Path) -> Result<gix::config::File, CheckoutError> {
    let mut bytes = read::file(path)?.unwrap_or_default();
    // These are facts, not instructions, so the owner of the file does not matter: a checkout of another
    // user resolves too (a caller that is root, a shared folder).
    let metadata = Metadata::from(gix::config::Source::Local).with(gix::sec::Trust::Full);
    gix::config::File::from_bytes_owned(&mut bytes, metadata, gix::config::file::init::Options::default())
        .map_err(|error| CheckoutError::MalformedConfig { path: path.into(), reason: error.to_string() })
}

fn dangling(path: &Path) -> CheckoutError {
    match std::fs::read_link(path) {
        Ok(target) => CheckoutError::PointsNowhere { path: path.into(), target },
        Err(source) => CheckoutError::Unreadable { path: path.into(), source },
    }
}

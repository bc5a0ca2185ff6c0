use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use fs_err as fs;
use fs_err::os::unix::fs::OpenOptionsExt;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use sandbox_state::{MsbFiles, read_record, write_record};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::RuntimeInstallError;
use super::pins::{LIBKRUNFW_LINKS, Pin, Pins};

/// Begins the name of every folder that is not in place yet, or no longer.
pub(crate) const STAGED: &str = ".new-";

/// What was verified. A file that still looks like this is not read again.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    version: String,
    files: Vec<Look>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Look {
    name: String,
    sha256: String,
    size: u64,
    /// Modified and changed, each in seconds and nanoseconds since 1970.
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Record {
    fn of(home: &MsbFiles, pins: &Pins) -> std::io::Result<Self> {
        let look = |pin: &Pin| {
            let metadata = fs::symlink_metadata(place(home, pins, pin))?;
            Ok(Look {
                name: pin.name.into(),
                sha256: pin.sha256.clone(),
                size: metadata.len(),
                modified: (metadata.mtime(), metadata.mtime_nsec()),
                changed: (metadata.ctime(), metadata.ctime_nsec()),
            })
        };
        let files = pins.files.iter().map(look).collect::<std::io::Result<_>>()?;
        Ok(Self { version: pins.version.into(), files })
    }
}

fn place(home: &MsbFiles, pins: &Pins, pin: &Pin) -> PathBuf {
    home.version(pins.version).join(pin.dir).join(pin.name)
}

/// Whether the pinned files were verified once and look the same since. Reads no content.
pub(crate) fn is_recorded(home: &MsbFiles, pins: &Pins) -> bool {
    let recorded = read_record::<Record>(&home.installed()).ok().flatten();
    recorded.is_some()
        && recorded == Record::of(home, pins).ok()
        && links(home, pins).iter().all(Link::is_right)
}

pub(crate) enum Found {
    Nothing,
    Whole,
    /// Which file, and what is wrong with it.
    Damaged(String),
}

/// Compares the files in place with the pins, byte by byte.
pub(crate) fn verify(home: &MsbFiles, pins: &Pins) -> Result<Found, RuntimeInstallError> {
    if !home.version(pins.version).exists() {
        return Ok(Found::Nothing);
    }
    for pin in &pins.files {
        let path = place(home, pins, pin);
        let got = match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_file() => copy_hashed(&mut fs::File::open(&path)?, None, u64::MAX)?,
            Ok(_) => "no regular file".into(),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                "nothing".into()
            }
            Err(error) => return Err(error.into()),
        };
        if got != pin.sha256 {
            let problem = format!("{}: SHA-256 wanted {}, got {got}", path.display(), pin.sha256);
            return Ok(Found::Damaged(problem));
        }
    }
    Ok(Found::Whole)
}

/// Removes what killed installations left. Only under the lock.
pub(crate) fn clear_leftovers(home: &MsbFiles) -> Result<(), RuntimeInstallError> {
    for entry in fs::read_dir(&home.dir)? {
        let path = entry?.path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(STAGED)) {
            if fs::symlink_metadata(&path)?.is_dir() {
                fs::remove_dir_all(&path)?;
            } else {
                fs::remove_file(&path)?;
            }
        }
    }
    Ok(())
}

/// A version being made. Dropping it removes it.
pub(crate) struct Staged {
    dir: tempfile::TempDir,
}

impl Staged {
    pub fn new(home: &MsbFiles) -> Result<Self, RuntimeInstallError> {
        let dir = tempfile::Builder::new().prefix(STAGED).tempdir_in(&home.dir)?;
        fs::create_dir(dir.path().join("version"))?;
        Ok(Self { dir })
    }

    /// The folder around, where things stay when this value goes.
    pub fn home(&self) -> &Path {
        self.dir.path().parent().unwrap_or(Path::new("/"))
    }

    /// An empty folder for downloads, removed with this value.
    pub fn fetched(&self) -> Result<PathBuf, RuntimeInstallError> {
        let dir = self.dir.path().join("fetched");
        if dir.exists() {
            fs::remove_dir_all(&dir)?;
        }
        fs::create_dir(&dir)?;
        Ok(dir)
    }

    /// Copies one file, and refuses it when it is not the pinned one. `source_name` is for the error.
    pub fn take(&self, pin: &Pin, from: &mut dyn Read, source_name: &str) -> Result<(), RuntimeInstallError> {
        let dir = self.dir.path().join("version").join(pin.dir);
        fs::create_dir_all(&dir)?;
        let path = dir.join(pin.name);
        let mut file =
            fs::OpenOptions::new().write(true).create(true).truncate(true).mode(pin.mode).open(&path)?;
        // One byte more than pinned is enough to know.
        let got = copy_hashed(from, Some(&mut file), pin.size + 1)?;
        if got != pin.sha256 {
            let (wanted, source_name) = (pin.sha256.clone(), source_name.into());
            return Err(RuntimeInstallError::WrongFile { source_name, file: pin.name, wanted, got });
        }
        Ok(file.sync_all()?)
    }

    /// Makes the version visible in one step, in exchange for a damaged one.
    pub fn into_place(self, home: &MsbFiles, pins: &Pins) -> Result<(), RuntimeInstallError> {
        let version = self.dir.path().join("version");
        let [_, libkrunfw] = &pins.files;
        for link in LIBKRUNFW_LINKS {
            symlink(libkrunfw.name, version.join(libkrunfw.dir).join(link))?;
        }
        for pin in &pins.files {
            sync_dir(&version.join(pin.dir))?;
        }
        sync_dir(&version)?;
        let target = home.version(pins.version);
        match renameat_with(CWD, &version, CWD, &target, RenameFlags::EXCHANGE) {
            Ok(()) => {}
            Err(Errno::NOENT) => fs::rename(&version, &target)?,
            // A file system that cannot exchange: a kill in between leaves none, which the next call
            // installs.
            Err(_) => {
                fs::rename(&target, self.dir.path().join("old"))?;
                fs::rename(&version, &target)?;
            }
        }
        Ok(sync_dir(&home.dir)?)
    }
}

struct Link {
    path: PathBuf,
    target: PathBuf,
}

impl Link {
    fn is_right(&self) -> bool {
        fs::read_link(&self.path).is_ok_and(|target| target == self.target)
    }
}

fn links(home: &MsbFiles, pins: &Pins) -> [Link; 2] {
    home.links().map(|path| {
        let target = Path::new(pins.version).join(path.file_name().unwrap_or_default());
        Link { path, target }
    })
}

/// Points the home at the version, and records that it was verified.
pub(crate) fn link_and_record(home: &MsbFiles, pins: &Pins) -> Result<(), RuntimeInstallError> {
    for link in links(home, pins).iter().filter(|link| !link.is_right()) {
        let new = tempfile::Builder::new().prefix(STAGED).tempdir_in(&home.dir)?;
        symlink(&link.target, new.path().join("link"))?;
        if fs::symlink_metadata(&link.path).is_ok_and(|found| found.is_dir()) {
            fs::rename(&link.path, new.path().join("old"))?;
        }
        fs::rename(new.path().join("link"), &link.path)?;
    }
    Ok(write_record(&home.installed(), &Record::of(home, pins)?)?)
}

/// Reads at most `limit` bytes and returns their SHA-256.
fn copy_hashed(from: &mut dyn Read, mut to: Option<&mut fs::File>, limit: u64) -> std::io::Result<String> {
    let mut from = from.take(limit);
    let mut hash = Sha256::new();
    let mut chunk = vec![0; 256 * 1024];
    loop {
        let count = match from.read(&mut chunk) {
            Ok(0) => return Ok(hex::encode(hash.finalize())),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        hash.update(&chunk[..count]);
        if let Some(file) = &mut to {
            file.write_all(&chunk[..count])?;
        }
    }
}

fn sync_dir(dir: &Path) -> std::io::Result<()> {
    fs::File::open(dir)?.sync_all()
}

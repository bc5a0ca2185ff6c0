//! What is installed, and taking it away.

use std::path::{Path, PathBuf};

use fs_err as fs;
use sandbox_model::ByteSize;
use sandbox_state::{Layout, Lock, LockMode, MsbFiles};

use super::pins::Pins;
use super::{Installed, RuntimeInstallError, place};

/// What is in the private runtime's home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installation {
    /// The runtime's home.
    pub home: PathBuf,
    /// The pinned version, which may or may not be there.
    pub version: &'static str,
    /// What there is of the pinned version.
    pub found: Found,
    /// Other versions that are there: older ones stay until the pinned one has started a sandbox.
    pub others: Vec<String>,
}

/// Whether the pinned version can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// It is not there; the next run installs it.
    Nothing,
    /// Both files are those that were pinned.
    Whole(Installed),
    /// What is wrong with it. The next run repairs it.
    Damaged(String),
}

/// Looks, and changes nothing.
pub fn installation(layout: &Layout) -> Result<Installation, RuntimeInstallError> {
    look(&layout.msb_files(), &Pins::for_this_machine()?)
}

pub(crate) fn look(home: &MsbFiles, pins: &Pins) -> Result<Installation, RuntimeInstallError> {
    let whole = || Found::Whole(pins.installed_in(&home.version(pins.version)));
    let found = if place::is_recorded(home, pins) {
        whole()
    } else {
        match place::verify(home, pins)? {
            place::Found::Nothing => Found::Nothing,
            place::Found::Whole => whole(),
            place::Found::Damaged(problem) => Found::Damaged(problem),
        }
    };
    Ok(Installation {
        home: home.dir.clone(),
        version: pins.version,
        found,
        others: others(home, pins.version)?,
    })
}

/// Folders that hold another version.
fn others(home: &MsbFiles, version: &str) -> Result<Vec<String>, RuntimeInstallError> {
    let entries = match fs::read_dir(&home.dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let numbered = name.starts_with(|first: char| first.is_ascii_digit());
        if numbered && name != version && entry.path().join("bin/msb").is_file() {
            found.push(name);
        }
    }
    found.sort();
    Ok(found)
}

/// Removes the versions that `version` has replaced, once that has started a sandbox. One that a process
/// still runs from stays.
pub(crate) fn retire_others(home: &MsbFiles, version: &str) -> Result<(), RuntimeInstallError> {
    let old = others(home, version)?;
    if old.is_empty() {
        return Ok(());
    }
    let _lock = Lock::take(&home.lock(), LockMode::Exclusive, "remove old versions", |_| {})?;
    for name in old {
        let dir = home.version(&name);
        if !is_run_from(&dir) {
            // In one step out of sight; what a kill leaves is cleared by the next installation.
            let aside = tempfile::Builder::new().prefix(place::STAGED).tempdir_in(&home.dir)?;
            fs::rename(&dir, aside.path().join("old"))?;
        }
    }
    Ok(())
}

/// Whether a process that we can see has its program below `dir`.
pub(crate) fn is_run_from(dir: &Path) -> bool {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|process| std::fs::read_link(process.path().join("exe")).ok())
        .any(|program| program.starts_with(dir))
}

/// Removes the runtime with everything it keeps for itself: images, logs, its database. Returns how much
/// that was on disk. The caller has seen to it that no sandbox is on it.
pub fn uninstall(layout: &Layout) -> Result<ByteSize, RuntimeInstallError> {
    let home = layout.msb_files();
    if !home.dir.exists() {
        return Ok(ByteSize::from_bytes(0));
    }
    let _lock = Lock::take(&home.lock(), LockMode::Exclusive, "remove the runtime", |_| {})?;
    let blocks = crate::roster::blocks(&home.dir).unwrap_or(0);
    for entry in fs::read_dir(&home.dir)? {
        let path = entry?.path();
        if path == home.lock() {
            continue;
        }
        if fs::symlink_metadata(&path)?.is_dir() {
            fs::remove_dir_all(&path)?;
        } else {
            fs::remove_file(&path)?;
        }
    }
    Ok(ByteSize::from_bytes(512 * blocks))
}

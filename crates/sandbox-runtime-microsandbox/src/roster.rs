//! Everything that is known of sandboxes at one moment: our records, and what `msb` says of them.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use fs_err as fs;
use sandbox_model::{SandboxName, Status};
use sandbox_runtime::{BrokenRecord, RuntimeError, SandboxInfo};
use sandbox_state::is_locked;

use crate::answers::{Row, parse};
use crate::call::Msb;
use crate::command;
use crate::error::from_state;
use crate::files::{Files, SandboxPaths};
use crate::machine::{self, Seen};
use crate::outlet;
use crate::record::{self, Life, SandboxRecord};

/// `msb`'s word on each of its sandboxes.
#[derive(Debug, Default)]
pub struct Roster(HashMap<String, Status>);

impl Roster {
    /// Asks about all of them, which is one call.
    pub fn ask(msb: &Msb) -> Result<Self, RuntimeError> {
        let rows: Vec<Row> = parse("list", &msb.run(&command::list(), msb.patience.ask)?)?;
        Ok(Self(rows.into_iter().map(|row| (row.name.clone(), row.status())).collect()))
    }

    /// What is known of one sandbox without a word of `msb`: that it was never started, that its machine lives, or
    /// that it was ended. `None` where only `msb` can tell.
    pub fn seen(files: &Files, name: &SandboxName) -> Option<Self> {
        let paths = files.sandbox(name);
        if Life::read(&paths).is_none() {
            return Some(Self::default());
        }
        let status = match machine::look(&files.home.dir, &paths, name) {
            Seen::Up => Status::Running,
            Seen::AtRest => Status::Stopped,
            Seen::Unclear => return None,
        };
        Some(Self(HashMap::from([(name.to_string(), status)])))
    }

    /// What is needed for the status of one sandbox: `msb` is asked only where nothing else tells.
    pub fn for_one(
        files: &Files,
        name: &SandboxName,
        msb: impl FnOnce() -> Result<Msb, RuntimeError>,
    ) -> Result<Self, RuntimeError> {
        Self::seen(files, name).map_or_else(|| Self::ask(&msb()?), Ok)
    }

    /// What a start has to know: nothing, of a sandbox that was never started, which `msb` makes anew in any case.
    pub fn before_a_start(
        paths: &SandboxPaths,
        msb: impl FnOnce() -> Result<Msb, RuntimeError>,
    ) -> Result<Self, RuntimeError> {
        if Life::read(paths).is_none() { Ok(Self::default()) } else { Self::ask(&msb()?) }
    }

    /// Whether `msb` has a sandbox of that name.
    pub fn knows(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The status and, where it is `crashed`, why.
    pub fn status(&self, paths: &SandboxPaths, name: &str) -> Result<(Status, Option<String>), RuntimeError> {
        let starting = is_locked(&paths.starting_lock()).map_err(from_state)?;
        let life = Life::read(paths);
        let bereft = life == Some(Life::Served) && outlet::is_lost(paths)?;
        Ok(record::status(life.as_ref(), starting, self.0.get(name), bereft))
    }

    /// As callers of the runtime get it. `updated` is when the newest of its files changed.
    pub fn info(&self, paths: &SandboxPaths, record: SandboxRecord) -> Result<SandboxInfo, RuntimeError> {
        let (status, problem) = self.status(paths, record.spec.name.as_str())?;
        let changed = [paths.record(), paths.life(), paths.machine_log()];
        let changed = changed.iter().filter_map(|path| Some(fs::metadata(path).ok()?.mtime())).max();
        Ok(SandboxInfo {
            saved_memory: None,
            added_ports: record.added_ports,
            status,
            created: record.created,
            updated: changed.unwrap_or(record.created).max(record.created),
            problem,
            spec: record.spec,
        })
    }
}

/// What can be said of a sandbox that only `msb` knows about, while it says nothing: that nobody knows.
pub fn without_answer(
    paths: &SandboxPaths,
    record: SandboxRecord,
    error: &RuntimeError,
) -> Result<SandboxInfo, RuntimeError> {
    let mut info = Roster::default().info(paths, record)?;
    info.status = Status::Unknown("unknown".into());
    info.problem = Some(error.to_string());
    Ok(info)
}

/// Our records, read.
#[derive(Debug, Default)]
pub struct Records {
    pub sandboxes: Vec<SandboxRecord>,
    pub broken: Vec<BrokenRecord>,
}

/// Every record, by name; one that cannot be read is a broken row.
pub fn records(files: &Files) -> Result<Records, RuntimeError> {
    let mut found = Records::default();
    let entries = match fs::read_dir(files.sandboxes()) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(found),
        Err(error) => return Err(error.into()),
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // Unfinished creations and removals; the next one of that name clears them away.
        if name.starts_with('.') {
            continue;
        }
        let path = entry.path();
        match SandboxRecord::read(&SandboxPaths::at(&path)) {
            Ok(Some(record)) => found.sandboxes.push(record),
            // Removed since the folder was read.
            Ok(None) if !path.exists() => {}
            Ok(None) => {
                found.broken.push(BrokenRecord { name, path, problem: "it has no sandbox.json".into() });
            }
            Err(error) => found.broken.push(BrokenRecord { name, path, problem: error.to_string() }),
        }
    }
    found.sandboxes.sort_by(|a, b| a.spec.name.cmp(&b.spec.name));
    found.broken.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

/// Blocks of 512 bytes that a folder takes, with everything below it; none where there is no folder.
pub fn blocks(dir: &Path) -> Result<u64, RuntimeError> {
    let mut total = 0;
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error.into()),
    };
    for entry in entries {
        let entry = entry?;
        // What goes away while it is counted takes nothing.
        let Ok(metadata) = entry.path().symlink_metadata() else { continue };
        total += metadata.blocks();
        if metadata.is_dir() {
            total += blocks(&entry.path())?;
        }
    }
    Ok(total)
}

//! The record of one sandbox, and its status.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use sandbox_model::{ByteSize, PortForward, SandboxSpec, Status};
use sandbox_runtime::{BrokenRecord, RuntimeError, SandboxInfo, SandboxList};
use sandbox_state::{QemuLayout, StateError, read_versioned, write_record};
use serde::{Deserialize, Serialize};

use crate::error::from_state;
use crate::files::MachineFiles;
use crate::memory;

/// Raised when the record changes shape in a way an older program would misread.
const VERSION: u32 = 1;

/// `sandbox.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxRecord {
    pub version: u32,
    pub spec: SandboxSpec,
    /// Seconds since 1970.
    pub created: i64,
    /// Those of the spec's ports that were added while it ran.
    #[serde(default)]
    pub added_ports: Vec<PortForward>,
}

impl SandboxRecord {
    /// `created` is in seconds since 1970.
    pub fn new(spec: SandboxSpec, created: i64) -> Self {
        Self { version: VERSION, spec, created, added_ports: Vec::new() }
    }

    pub fn change_ports(&mut self, open: &[PortForward], close: &[PortForward]) {
        self.spec.change_ports(open, close);
        self.added_ports.retain(|port| !close.contains(port));
    }

    pub fn add_ports(&mut self, ports: &[PortForward]) {
        self.spec.change_ports(ports, &[]);
        self.added_ports.retain(|port| !ports.contains(port));
        self.added_ports.extend(ports);
    }

    /// In place of the one before, in one step.
    pub fn write(&self, files: &MachineFiles) -> Result<(), RuntimeError> {
        write_record(&files.record(), self).map_err(from_state)
    }

    /// `None` when there is no such sandbox.
    pub fn read(files: &MachineFiles) -> Result<Option<Self>, RuntimeError> {
        read_versioned(&files.record(), VERSION).map_err(from_state)
    }
}

/// The machine's own word about itself, at the start of its lock file: true only while the lock is held,
/// and the last word of a machine that is gone.
///
/// The word is padded so that a reader never sees the tail of a longer one.
pub fn life_word(status: &Status) -> String {
    format!("{status:<15}\n")
}

/// The status, computed from the lock (held: alive) and the word in it.
pub fn status(files: &MachineFiles) -> Result<Status, StateError> {
    let lock = files.lock();
    let alive = sandbox_state::is_locked(&lock)?;
    let word = match fs_err::read_to_string(&lock) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Status::Created),
        Err(error) => return Err(error.into()),
    };
    let word = word.split_whitespace().next().map(Status::parse);
    Ok(match (alive, word) {
        (true, Some(word @ (Status::Running | Status::Draining))) => word,
        // A machine that has taken its lock and not yet written is starting.
        (true, _) => Status::Starting,
        (false, Some(Status::Stopped)) => Status::Stopped,
        (false, None) => Status::Created,
        (false, Some(_)) => Status::Crashed,
    })
}

/// As callers of the runtime get it. `updated` is when the lock or the record was last written.
pub fn info(files: &MachineFiles, record: SandboxRecord) -> Result<SandboxInfo, RuntimeError> {
    let status = status(files).map_err(from_state)?;
    let problem = (status == Status::Crashed).then(|| {
        fs_err::read_to_string(files.problem()).unwrap_or_else(|_| "its machine process was killed".into())
    });
    let changed = [files.lock(), files.record()]
        .iter()
        .filter_map(|path| fs_err::metadata(path).ok()?.modified().ok())
        .filter_map(|time| time.duration_since(std::time::UNIX_EPOCH).ok())
        .map(|age| i64::try_from(age.as_secs()).unwrap_or(i64::MAX))
        .max();
    Ok(SandboxInfo {
        saved_memory: status.is_at_rest().then(|| memory::saved(files)).flatten(),
        status,
        created: record.created,
        updated: changed.unwrap_or(record.created),
        problem: problem.map(|text| text.trim().to_string()),
        added_ports: record.added_ports,
        spec: record.spec,
    })
}

/// Bytes that the files of a sandbox take; `None` where it is gone. What goes away while it is counted takes
/// nothing.
pub fn usage(files: &MachineFiles) -> Result<Option<ByteSize>, RuntimeError> {
    let entries = match fs_err::read_dir(&files.dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mut blocks = 0;
    for entry in entries {
        blocks += entry?.metadata().map_or(0, |metadata| metadata.blocks());
    }
    Ok(Some(ByteSize::from_bytes(blocks * 512)))
}

/// Every sandbox; a record that cannot be read is a broken row.
pub fn list(layout: &QemuLayout) -> Result<SandboxList, RuntimeError> {
    let mut list = SandboxList::default();
    let entries = match fs_err::read_dir(layout.sandboxes()) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(list),
        Err(error) => return Err(error.into()),
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // Unfinished creations and removals; the next one of any sandbox clears them away.
        if name.starts_with('.') {
            continue;
        }
        match read_one(&entry.path()) {
            Ok(Some(found)) => list.sandboxes.push(found),
            // Removed since the folder was read.
            Ok(None) | Err(_) if !entry.path().exists() => {}
            Ok(None) => list.broken.push(BrokenRecord {
                name,
                path: entry.path(),
                problem: "it has no sandbox.json".into(),
            }),
            Err(error) => {
                list.broken.push(BrokenRecord { name, path: entry.path(), problem: error.to_string() });
            }
        }
    }
    list.sandboxes.sort_by(|a, b| a.spec.name.cmp(&b.spec.name));
    list.broken.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(list)
}

fn read_one(dir: &Path) -> Result<Option<SandboxInfo>, RuntimeError> {
    let files = MachineFiles::new(dir);
    SandboxRecord::read(&files)?.map(|record| info(&files, record)).transpose()
}

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use sandbox_model::{ByteSize, Digest, HomeDisk, ImageRef, PortForward, SandboxName, SandboxSpec};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{Result, RuntimeError};

/// What is remembered of a sandbox. Whether it lives is never written down.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Record {
    pub spec: SandboxSpec,
    pub created: i64,
    pub updated: i64,
    pub ever_started: bool,
    #[serde(default)]
    pub added_ports: Vec<PortForward>,
}

/// Every path of the fake, and its records.
#[derive(Debug, Clone)]
pub(super) struct Store {
    dir: PathBuf,
}

impl Store {
    pub fn open(dir: PathBuf) -> Result<Self> {
        let store = Self { dir };
        for dir in [store.sandboxes(), store.locks(), store.images(), store.references(), store.homes()] {
            fs::create_dir_all(dir)?;
        }
        Ok(store)
    }

    pub fn sandboxes(&self) -> PathBuf {
        self.dir.join("sandboxes")
    }

    pub fn sandbox(&self, name: &SandboxName) -> PathBuf {
        self.sandboxes().join(name)
    }

    pub fn record_path(&self, name: &SandboxName) -> PathBuf {
        self.sandbox(name).join("record.json")
    }

    pub fn boot_path(&self, name: &SandboxName) -> PathBuf {
        self.sandbox(name).join("boot.json")
    }

    /// Where what listens on a guest's port really listens: every guest has the same loopback, so a program
    /// that is made for tests may take another port and write it into the file `ports/PORT`.
    pub fn guest_port(&self, port: u16) -> u16 {
        let written = fs::read_to_string(self.dir.join("ports").join(port.to_string()));
        written.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(port)
    }

    pub fn memory_path(&self, name: &SandboxName) -> PathBuf {
        self.sandbox(name).join("memory.json")
    }

    /// The size of the file that stands for the saved memory.
    pub fn saved_memory(&self, name: &SandboxName) -> Option<ByteSize> {
        let file = fs::metadata(self.memory_path(name)).ok()?;
        Some(ByteSize::from_bytes(file.len()))
    }

    pub fn console_log(&self, name: &SandboxName) -> PathBuf {
        self.sandbox(name).join("console.log")
    }

    pub fn machine_log(&self, name: &SandboxName) -> PathBuf {
        self.sandbox(name).join("machine.log")
    }

    pub fn network_log(&self, name: &SandboxName) -> PathBuf {
        self.sandbox(name).join("network.log")
    }

    pub fn images(&self) -> PathBuf {
        self.dir.join("images")
    }

    pub fn image(&self, digest: &Digest) -> PathBuf {
        self.images().join(digest.hex())
    }

    pub fn references(&self) -> PathBuf {
        self.dir.join("references")
    }

    pub fn reference(&self, reference: &ImageRef) -> PathBuf {
        self.references().join(file_name(reference.as_str()))
    }

    pub fn faults_path(&self) -> PathBuf {
        self.dir.join("faults.json")
    }

    fn homes(&self) -> PathBuf {
        self.dir.join("homes")
    }

    /// The folder that stands for what is inside a home disk; a "disk" that is a folder is that itself.
    pub fn home(&self, disk: &HomeDisk) -> PathBuf {
        if disk.path.is_dir() {
            return disk.path.clone();
        }
        self.homes().join(file_name(&disk.path.to_string_lossy()))
    }

    fn locks(&self) -> PathBuf {
        self.dir.join("locks")
    }

    /// Locks live outside the sandbox's folder: a lock that is removed while someone waits for it is two.
    pub fn control_lock(&self, name: &SandboxName) -> PathBuf {
        self.locks().join(format!("{name}.control"))
    }

    pub fn machine_lock(&self, name: &SandboxName) -> PathBuf {
        self.locks().join(format!("{name}.machine"))
    }

    /// Held while images are added or removed, and while a sandbox starts or ends to use one.
    pub fn lock_images(&self) -> Result<File> {
        let file = open_lock(&self.locks().join("images"))?;
        file.lock()?;
        Ok(file)
    }

    pub fn names(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.sandboxes())? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if !name.starts_with('.') {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    pub fn read(&self, name: &SandboxName) -> Result<Option<Record>> {
        let path = self.record_path(name);
        match read_json(&path)? {
            None if self.sandbox(name).is_dir() => {
                // Two looks: the folder may have been removed between the first one and this.
                match read_json(&path)? {
                    None if self.sandbox(name).is_dir() => {
                        Err(RuntimeError::BadRecord { path, problem: "the file is missing".into() })
                    }
                    found => Ok(found),
                }
            }
            found => Ok(found),
        }
    }

    pub fn require(&self, name: &SandboxName) -> Result<Record> {
        self.read(name)?.ok_or_else(|| RuntimeError::NoSuchSandbox(name.clone()))
    }

    pub fn create(&self, spec: &SandboxSpec) -> Result<()> {
        let now = now();
        let record = Record {
            spec: spec.clone(),
            created: now,
            updated: now,
            ever_started: false,
            added_ports: Vec::new(),
        };
        let half_made = tempfile::Builder::new().prefix(".new-").tempdir_in(self.sandboxes())?;
        write_json(&half_made.path().join("record.json"), &record)?;
        let half_made = half_made.keep();
        // A folder with a record in it is never replaced by a rename: the first one wins.
        fs::rename(&half_made, self.sandbox(&spec.name)).map_err(|error| {
            let _ = fs::remove_dir_all(&half_made);
            match error.kind() {
                ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists => {
                    RuntimeError::Exists(spec.name.clone())
                }
                _ => error.into(),
            }
        })
    }

    /// Replaces a record; the moment of the change is now.
    pub fn write(&self, mut record: Record) -> Result<()> {
        record.updated = now();
        write_json(&self.record_path(&record.spec.name), &record)
    }
}

/// Seconds since 1970.
pub(super) fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs().cast_signed())
}

/// A text as one file name, readable and without collisions.
fn file_name(text: &str) -> String {
    text.replace('%', "%25").replace('/', "%2F")
}

pub(super) fn open_lock(path: &Path) -> Result<File> {
    Ok(File::options().read(true).write(true).create(true).truncate(false).open(path)?)
}

pub(super) fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(dir)?;
    serde_json::to_writer_pretty(&mut file, value).map_err(std::io::Error::from)?;
    file.flush()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// `None` when there is no file.
pub(super) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) if matches!(error.kind(), ErrorKind::IsADirectory | ErrorKind::PermissionDenied) => {
            return Err(RuntimeError::BadRecord { path: path.into(), problem: error.to_string() });
        }
        Err(error) => return Err(error.into()),
    };
    serde_json::from_slice(&text)
        .map(Some)
        .map_err(|error| RuntimeError::BadRecord { path: path.into(), problem: error.to_string() })
}

pub(super) fn bytes_on_disk(dir: &Path) -> Result<u64> {
    use std::os::unix::fs::MetadataExt;
    let mut total = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        // What goes away while it is counted takes nothing.
        let Ok(metadata) = entry.metadata() else { continue };
        total += metadata.blocks() * 512;
        if metadata.is_dir() {
            total += bytes_on_disk(&entry.path())?;
        }
    }
    Ok(total)
}

use std::collections::BTreeMap;

use fs_err as fs;
use sandbox_runtime::RuntimeError;
use sandbox_wire::TOKEN;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::error::from_state;
use crate::files::MachineFiles;
use crate::machine::Accel;
use crate::mark::FileMark;

use super::Held;

/// Raised when the record changes shape.
const VERSION: u32 = 3;

/// What made a memory: names for people, and words that are equal only for the very same thing.
pub type Made = BTreeMap<String, String>;

/// `memory.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SavedMemory {
    pub version: u32,
    /// Another for every sleep.
    pub id: String,
    pub made: Made,
    /// What the guest had open, by name: image, root disk, home volume.
    pub disks: BTreeMap<String, FileMark>,
    pub memory: Kept,
    /// SHA-256 of the devices' state.
    pub state: String,
    pub accel: Accel,
    /// What the guest's kernel was told of the time stamp counter.
    pub tsc_khz: Option<u64>,
    /// Names the boot that the memory is of, however often it slept since.
    pub boot: String,
    /// The guest waits for a wake call with it.
    pub token: [u8; TOKEN],
    /// The host's own boot.
    pub host_boot: String,
    /// Seconds since 1970.
    pub saved_at: i64,
}

/// Where the memory is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kept {
    /// In a process that writes it to the disk; this many bytes of the host's memory.
    Held { holder: Held, taken: u64 },
    /// It, and all the other files, outlive a power loss.
    OnDisk { mark: FileMark },
    /// It could not be written to the disk.
    Lost { problem: String },
}

/// Why saved memory cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    #[error("its record cannot be read: {0}")]
    Record(String),
    #[error("{0} changed since it was saved")]
    Changed(String),
    #[error("the host restarted before it was safely on the disk")]
    NotSynced,
    #[error("its file is missing or damaged: {0}")]
    Damaged(String),
    #[error("it could not be written to the disk: {0}")]
    Lost(String),
}

impl SavedMemory {
    /// What a record of now has; memory with any other is of no use.
    pub const VERSION: u32 = VERSION;

    /// `None` where there is no saved memory.
    pub fn read(files: &MachineFiles) -> Result<Option<Self>, Unusable> {
        match sandbox_state::read_record::<Self>(&files.memory_record()) {
            Ok(Some(record)) if record.version != VERSION => {
                Err(Unusable::Record(format!("it has version {}", record.version)))
            }
            Ok(record) => Ok(record),
            Err(error) => Err(Unusable::Record(error.to_string())),
        }
    }

    /// Not synced: whoever waits for the sandbox to sleep does not wait for the disk.
    pub fn write_unsynced(&self, files: &MachineFiles) -> Result<(), RuntimeError> {
        let aside = files.memory_record().with_extension("new");
        let text = serde_json::to_vec_pretty(self).map_err(std::io::Error::from)?;
        fs::write(&aside, text)?;
        Ok(fs::rename(&aside, files.memory_record())?)
    }

    /// For a record that has to outlast a power cut, as the memory on the disk does.
    pub fn write_synced(&self, files: &MachineFiles) -> Result<(), RuntimeError> {
        sandbox_state::write_record(&files.memory_record(), self).map_err(from_state)
    }

    /// Whether a machine made as `made`, with these disks and accelerators, may go on with it.
    pub fn check(
        &self,
        files: &MachineFiles,
        made: &Made,
        disks: &BTreeMap<String, FileMark>,
        accels: &[Accel],
    ) -> Result<(), Unusable> {
        match &self.memory {
            Kept::Held { .. } if self.host_boot != host_boot() => return Err(Unusable::NotSynced),
            Kept::Lost { problem } => return Err(Unusable::Lost(problem.clone())),
            _ => {}
        }
        if !accels.contains(&self.accel) {
            return Err(Unusable::Changed("the accelerator".into()));
        }
        if let Some(name) = difference(&self.made, made) {
            return Err(Unusable::Changed(name.into()));
        }
        if let Some(name) = difference(&self.disks, disks) {
            return Err(Unusable::Changed(name.into()));
        }
        if let Kept::OnDisk { mark } = &self.memory {
            match FileMark::of(&files.memory()) {
                Ok(found) if found == *mark => {}
                Ok(_) => return Err(Unusable::Damaged("the memory was written to".into())),
                Err(error) => return Err(Unusable::Damaged(error.to_string())),
            }
        }
        match state_digest(files) {
            Ok(digest) if digest == self.state => Ok(()),
            Ok(_) => Err(Unusable::Damaged("the devices' state is not what was written".into())),
            Err(error) => Err(Unusable::Damaged(error.to_string())),
        }
    }

    /// After this no start finds the memory again, also after a power loss.
    pub fn use_up(&self, files: &MachineFiles) -> Result<(), RuntimeError> {
        fs::remove_file(files.memory_record())?;
        if matches!(self.memory, Kept::OnDisk { .. }) {
            fs::File::open(&files.dir)?.sync_all()?;
        }
        Ok(())
    }
}

/// SHA-256 of the devices' state, as hex digits: it tells a file that is not the one that was saved.
pub fn state_digest(files: &MachineFiles) -> Result<String, RuntimeError> {
    Ok(hex::encode(Sha256::digest(fs::read(files.memory_state())?)))
}

/// Another word for every boot of the host.
pub fn host_boot() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().into()
}

/// The first name under which the two differ.
fn difference<'a, T: PartialEq>(
    saved: &'a BTreeMap<String, T>,
    now: &'a BTreeMap<String, T>,
) -> Option<&'a str> {
    let mut names = saved.keys().chain(now.keys());
    names.find(|name| saved.get(*name) != now.get(*name)).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(qemu: &str) -> Made {
        BTreeMap::from([("QEMU".into(), qemu.into()), ("the kernel".into(), "k".into())])
    }

    struct Place {
        _dir: tempfile::TempDir,
        files: MachineFiles,
        record: SavedMemory,
    }

    fn place() -> Place {
        let dir = tempfile::tempdir().unwrap();
        let files = MachineFiles::new(dir.path());
        fs::write(files.memory(), vec![1; 4096]).unwrap();
        fs::write(files.memory_state(), "state").unwrap();
        fs::write(files.root_disk(), "disk").unwrap();
        let record = SavedMemory {
            version: VERSION,
            id: "one".into(),
            made: made("10.0"),
            disks: disks(&files),
            memory: Kept::OnDisk { mark: FileMark::of(&files.memory()).unwrap() },
            state: state_digest(&files).unwrap(),
            accel: Accel::Tcg,
            tsc_khz: Some(1),
            boot: "first".into(),
            token: [1; TOKEN],
            host_boot: host_boot(),
            saved_at: 1,
        };
        Place { _dir: dir, files, record }
    }

    fn disks(files: &MachineFiles) -> BTreeMap<String, FileMark> {
        BTreeMap::from([("the root disk".into(), FileMark::of(&files.root_disk()).unwrap())])
    }

    impl Place {
        fn check(&self) -> Result<(), Unusable> {
            self.record.check(&self.files, &made("10.0"), &disks(&self.files), &[Accel::Tcg])
        }

        fn changed(&self, path: std::path::PathBuf, text: &str) -> Result<(), Unusable> {
            std::thread::sleep(std::time::Duration::from_millis(20));
            fs::write(path, text).unwrap();
            self.check()
        }
    }

    #[test]
    fn the_same_machine_goes_on() {
        let place = place();
        assert_eq!(place.check(), Ok(()));
        place.record.write_unsynced(&place.files).unwrap();
        assert_eq!(SavedMemory::read(&place.files), Ok(Some(place.record.clone())));
        place.record.use_up(&place.files).unwrap();
        assert_eq!(SavedMemory::read(&place.files), Ok(None));
    }

    #[test]
    fn every_difference_is_named() {
        let place = place();
        let changed = |name: &str| Err(Unusable::Changed(name.into()));
        let disks = disks(&place.files);
        let check = |made: &Made, accels: &[Accel]| place.record.check(&place.files, made, &disks, accels);
        assert_eq!(check(&made("10.1"), &[Accel::Tcg]), changed("QEMU"));
        assert_eq!(check(&made("10.0"), &[Accel::Kvm]), changed("the accelerator"));
        let mut more = made("10.0");
        more.insert("the bridge".into(), "b".into());
        assert_eq!(check(&more, &[Accel::Tcg]), changed("the bridge"));
        assert_eq!(place.changed(place.files.root_disk(), "dusk"), changed("the root disk"));
    }

    #[test]
    fn damage_to_each_file_is_seen() {
        let first = place();
        assert!(matches!(first.changed(first.files.memory(), "short"), Err(Unusable::Damaged(_))));
        let second = place();
        assert!(matches!(second.changed(second.files.memory_state(), "stote"), Err(Unusable::Damaged(_))));
        let third = place();
        fs::remove_file(third.files.memory_state()).unwrap();
        assert!(matches!(third.check(), Err(Unusable::Damaged(_))));
        let fourth = place();
        fs::write(fourth.files.memory_record(), "{").unwrap();
        assert!(matches!(SavedMemory::read(&fourth.files), Err(Unusable::Record(_))));
    }

    #[test]
    fn what_was_not_synced_does_not_outlive_the_hosts_boot() {
        let mut place = place();
        place.record.host_boot = "another boot".into();
        assert_eq!(place.check(), Ok(()), "on the disk");
        let holder = Held::new(1, &tempfile::tempfile().unwrap()).unwrap();
        place.record.memory = Kept::Held { holder, taken: 1 };
        assert_eq!(place.check(), Err(Unusable::NotSynced));
        place.record.host_boot = host_boot();
        assert_eq!(place.check(), Ok(()), "held, in this boot");
        place.record.memory = Kept::Lost { problem: "the disk is full".into() };
        assert_eq!(place.check(), Err(Unusable::Lost("the disk is full".into())));
    }
}

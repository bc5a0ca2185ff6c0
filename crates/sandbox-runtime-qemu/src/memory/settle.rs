//! After a sandbox fell asleep, with nobody waiting: its memory is written to the disk, and all of it synced.

use std::fs::File;

use fs_err as fs;
use sandbox_runtime::RuntimeError;
use sandbox_state::Lock;

use super::ram::copy;
use super::{Kept, SavedMemory, lock_of_existing};
use crate::files::MachineFiles;
use crate::mark::FileMark;
use crate::record::SandboxRecord;

/// Makes saved memory last. `ram` is the memory; who wakes the sandbox meanwhile takes it from this process,
/// which then ends early, and harmlessly.
///
/// `id` names the sleep that `ram` is of: another one's files are not touched.
///
/// What cannot be written is lost with this process: the record says why then.
pub fn settle(files: &MachineFiles, ram: &File, id: &str) -> Result<(), RuntimeError> {
    let Err(error) = write(files, ram, id) else { return Ok(()) };
    if let Some((_held, mut record)) = still(files, id)? {
        // First what may fill the disk: without room not even the reason can be written.
        super::remove(&files.memory_aside())?;
        super::remove(&files.memory())?;
        record.memory = Kept::Lost { problem: error.to_string() };
        if record.write_synced(files).is_err() {
            super::forget_record(files)?;
        }
    }
    Err(error)
}

fn write(files: &MachineFiles, ram: &File, id: &str) -> Result<(), RuntimeError> {
    let Some((held, _)) = still(files, id)? else { return Ok(()) };
    let size = ram.metadata()?.len();
    super::remove(&files.memory_aside())?;
    let aside = fs::OpenOptions::new().create_new(true).write(true).open(files.memory_aside())?;
    drop(held);
    aside.set_len(size)?;
    let wanted = || Ok(still(files, id).map_err(std::io::Error::other)?.is_some());
    if !copy(ram, aside.file(), 0, size, &wanted)? {
        return Ok(());
    }
    aside.sync_all()?;
    let home = SandboxRecord::read(files)?.map(|record| record.spec.home.path);
    for path in [files.memory_state(), files.root_disk()].into_iter().chain(home) {
        fs::File::open(path)?.sync_all()?;
    }
    let Some((_held, mut record)) = still(files, id)? else { return Ok(()) };
    fs::rename(files.memory_aside(), files.memory())?;
    record.memory = Kept::OnDisk { mark: FileMark::of(&files.memory())? };
    record.write_synced(files)
}

/// The lock and the record, if it still is the one of this sleep.
fn still(files: &MachineFiles, id: &str) -> Result<Option<(Lock, SavedMemory)>, RuntimeError> {
    let Some(held) = lock_of_existing(files)? else { return Ok(None) };
    let record = SavedMemory::read(files).ok().flatten();
    Ok(record.filter(|record| record.id == id).map(|record| (held, record)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sandbox_that_is_gone_stays_gone() {
        let dir = tempfile::tempdir().unwrap();
        let files = MachineFiles::new(&dir.path().join("gone"));
        settle(&files, &tempfile::tempfile().unwrap(), "one").unwrap();
        assert!(!files.dir.exists());
    }

    #[test]
    fn the_files_of_another_sleep_are_not_touched() {
        let dir = tempfile::tempdir().unwrap();
        let files = MachineFiles::new(dir.path());
        fs::write(files.memory_aside(), "of another").unwrap();
        settle(&files, &tempfile::tempfile().unwrap(), "one").unwrap();
        assert_eq!(fs::read_to_string(files.memory_aside()).unwrap(), "of another");
    }
}

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
/// What cannot be written is lost with this process: the record says why then.
pub fn settle(files: &MachineFiles, ram: &File) -> Result<(), RuntimeError> {
    let Some((held, record)) = still(files, None)? else { return Ok(()) };
    drop(held);
    let Err(error) = write(files, ram, &record) else { return Ok(()) };
    if let Some((_held, mut record)) = still(files, Some(&record.id))? {
        record.memory = Kept::Lost { problem: error.to_string() };
        record.write_synced(files)?;
        super::remove(&files.memory_aside())?;
    }
    Err(error)
}

fn write(files: &MachineFiles, ram: &File, record: &SavedMemory) -> Result<(), RuntimeError> {
    let size = ram.metadata()?.len();
    let aside = fs::OpenOptions::new().create(true).truncate(true).write(true).open(files.memory_aside())?;
    aside.set_len(size)?;
    let wanted = || Ok(still(files, Some(&record.id)).map_err(std::io::Error::other)?.is_some());
    if !copy(ram, aside.file(), 0, size, &wanted)? {
        return Ok(());
    }
    aside.sync_all()?;
    let home = SandboxRecord::read(files)?.map(|record| record.spec.home.path);
    for path in [files.memory_state(), files.root_disk()].into_iter().chain(home) {
        fs::File::open(path)?.sync_all()?;
    }
    let Some((_held, mut record)) = still(files, Some(&record.id))? else { return Ok(()) };
    fs::rename(files.memory_aside(), files.memory())?;
    record.memory = Kept::OnDisk { mark: FileMark::of(&files.memory())? };
    record.write_synced(files)
}

/// The lock and the record, if there still is one (and, where named, this one).
fn still(files: &MachineFiles, id: Option<&str>) -> Result<Option<(Lock, SavedMemory)>, RuntimeError> {
    let Some(held) = lock_of_existing(files)? else { return Ok(None) };
    let record = SavedMemory::read(files).ok().flatten();
    Ok(record.filter(|record| id.is_none_or(|id| id == record.id)).map(|record| (held, record)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sandbox_that_is_gone_stays_gone() {
        let dir = tempfile::tempdir().unwrap();
        let files = MachineFiles::new(&dir.path().join("gone"));
        settle(&files, &tempfile::tempfile().unwrap()).unwrap();
        assert!(!files.dir.exists());
    }
}

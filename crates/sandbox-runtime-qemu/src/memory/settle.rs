//! After a sandbox fell asleep, with nobody waiting: zeros are given back to the disk, everything is synced.

use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use fs_err as fs;
use rustix::fs::{FallocateFlags, SeekFrom, Timestamps, fallocate, futimens, seek};
use sandbox_runtime::RuntimeError;
use sandbox_state::Lock;

use super::{SavedMemory, lock_of_existing};
use crate::files::MachineFiles;
use crate::record::SandboxRecord;

/// A wake waits for at most one of these.
const PIECE: u64 = 4 << 20;
const PAGE: usize = 4096;

/// Makes saved memory last. Ends early, and harmlessly, when the sandbox wakes meanwhile.
pub fn settle(files: &MachineFiles) -> Result<(), RuntimeError> {
    let Some((held, record)) = still(files, None)? else { return Ok(()) };
    drop(held);
    let memory = fs::OpenOptions::new().read(true).write(true).open(files.memory())?;
    let size = memory.metadata()?.len();
    let mut at = 0;
    while at < size {
        let Some((held, _)) = still(files, Some(&record.id))? else { return Ok(()) };
        at = punch_piece(memory.file(), at)?;
        drop(held);
    }
    memory.sync_all()?;
    let home = SandboxRecord::read(files)?.map(|record| record.spec.home.path);
    for path in [files.memory_state(), files.root_disk()].into_iter().chain(home) {
        fs::File::open(path)?.sync_all()?;
    }
    let Some((held, mut record)) = still(files, Some(&record.id))? else { return Ok(()) };
    record.synced = true;
    record.write_synced(files)?;
    drop(held);
    Ok(())
}

/// The lock and the record, if there still is one (and, where named, this one).
fn still(files: &MachineFiles, id: Option<&str>) -> Result<Option<(Lock, SavedMemory)>, RuntimeError> {
    let Some(held) = lock_of_existing(files)? else { return Ok(None) };
    let record = SavedMemory::read(files).ok().flatten();
    Ok(record.filter(|record| id.is_none_or(|id| id == record.id)).map(|record| (held, record)))
}

/// Punches holes where the next piece of data from `at` has zero pages; returns where to go on. The file's
/// times stay: they tell whether anyone wrote to it.
fn punch_piece(file: &std::fs::File, at: u64) -> Result<u64, RuntimeError> {
    let start = match seek(file, SeekFrom::Data(at)) {
        Ok(start) => start,
        Err(rustix::io::Errno::NXIO) => return Ok(u64::MAX),
        Err(error) => return Err(std::io::Error::from(error).into()),
    };
    let times = times(file)?;
    let mut piece = vec![0; usize::try_from(PIECE).unwrap_or(PAGE)];
    let count = file.read_at(&mut piece, start)?;
    if count == 0 {
        return Ok(u64::MAX);
    }
    for (offset, length) in zeros(&piece[..count]) {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match fallocate(file, flags, start + offset as u64, length as u64) {
            Ok(()) => {}
            // A file system without holes keeps its zeros.
            Err(rustix::io::Errno::OPNOTSUPP) => return Ok(u64::MAX),
            Err(error) => return Err(std::io::Error::from(error).into()),
        }
    }
    futimens(file.as_fd(), &times).map_err(std::io::Error::from)?;
    Ok(start + count as u64)
}

fn times(file: &std::fs::File) -> Result<Timestamps, RuntimeError> {
    use std::os::unix::fs::MetadataExt;
    let found = file.metadata()?;
    let time = |secs, nanos| rustix::fs::Timespec { tv_sec: secs, tv_nsec: nanos };
    Ok(Timestamps {
        last_access: time(found.atime(), found.atime_nsec()),
        last_modification: time(found.mtime(), found.mtime_nsec()),
    })
}

/// Runs of whole pages that hold nothing but zeros: offset and length.
fn zeros(bytes: &[u8]) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (index, page) in bytes.chunks_exact(PAGE).enumerate() {
        if page.iter().any(|byte| *byte != 0) {
            continue;
        }
        let offset = index * PAGE;
        match runs.last_mut() {
            Some((start, length)) if *start + *length == offset => *length += PAGE,
            _ => runs.push((offset, PAGE)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use crate::mark::FileMark;

    #[test]
    fn a_sandbox_that_is_gone_stays_gone() {
        let dir = tempfile::tempdir().unwrap();
        let files = MachineFiles::new(&dir.path().join("gone"));
        settle(&files).unwrap();
        assert!(!files.dir.exists());
    }

    #[test]
    fn zero_pages_cost_nothing_and_the_mark_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("memory");
        let mut bytes = vec![0; 12 << 20];
        bytes[5 << 20] = 7;
        fs::write(&path, &bytes).unwrap();
        let mark = FileMark::of(&path).unwrap();
        let before = fs::metadata(&path).unwrap().blocks();
        let file = fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let mut at = 0;
        while at < bytes.len() as u64 {
            at = punch_piece(file.file(), at).unwrap();
        }
        file.sync_all().unwrap();
        let after = fs::metadata(&path).unwrap().blocks();
        assert!(after * 512 <= 64 << 10, "{before} blocks became {after}");
        assert_eq!(fs::read(&path).unwrap(), bytes);
        assert_eq!(FileMark::of(&path).unwrap(), mark);
    }

    #[test]
    fn runs_are_whole_pages() {
        let mut bytes = vec![0; 4 * PAGE + 100];
        bytes[2 * PAGE] = 1;
        assert_eq!(zeros(&bytes), [(0, 2 * PAGE), (3 * PAGE, PAGE)]);
        assert_eq!(zeros(&[1; PAGE]), []);
    }
}

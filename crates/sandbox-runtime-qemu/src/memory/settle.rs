//! After a sandbox fell asleep, with nobody waiting: its memory is written to the disk, and all of it synced.

use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fs_err as fs;
use sandbox_runtime::RuntimeError;
use sandbox_state::{Lock, crash};

use super::ram::{copy, taken};
use super::{Kept, SavedMemory, lock_of_existing};
use crate::files::MachineFiles;
use crate::full::is_full;
use crate::mark::FileMark;
use crate::record::SandboxRecord;
use crate::room;

/// How long a full disk is left alone.
const TRIES_AGAIN: Duration = Duration::from_secs(10);
const LOOKS: Duration = Duration::from_millis(200);

/// Makes saved memory last. `ram` is the memory; who wakes the sandbox meanwhile takes it from this process,
/// which then ends early, and harmlessly.
///
/// `id` names the sleep that `ram` is of: another one's files are not touched.
///
/// While the disk is full, or would be with it, the memory stays with this process, which looks again, until
/// `told_to_end`. Then the disk's last bytes count too, and what cannot be written is lost with this process: the
/// record says why.
pub fn settle(
    files: &MachineFiles,
    ram: &File,
    id: &str,
    told_to_end: &AtomicBool,
) -> Result<(), RuntimeError> {
    let write = |last| {
        let lacks = |taken, dir: &Path| if last { Ok(None) } else { room::too_little(taken, dir) };
        write(files, ram, id, lacks)
    };
    settle_by(files, id, write, || patience(told_to_end))
}

/// `write` is told whether it is for the last time; `patience` waits a while, and says whether to go on waiting.
fn settle_by(
    files: &MachineFiles,
    id: &str,
    mut write: impl FnMut(bool) -> Result<(), RuntimeError>,
    mut patience: impl FnMut() -> bool,
) -> Result<(), RuntimeError> {
    let (mut told, mut last) = (false, false);
    let error = loop {
        let error = match write(last) {
            Ok(()) => return Ok(()),
            Err(error) if lacks_room(&error) && !last => error,
            Err(error) => break error,
        };
        let Some((held, _)) = still(files, id)? else { return Ok(()) };
        // What was written so far is of no use, and takes the room that others wait for.
        super::remove(&files.memory_aside())?;
        super::remove(&files.memory())?;
        drop(held);
        if !std::mem::replace(&mut told, true) {
            tracing::warn!("saved memory stays in the host's memory until the disk has room: {error}");
        }
        last = !patience();
    };
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

fn patience(told_to_end: &AtomicBool) -> bool {
    let end = Instant::now() + TRIES_AGAIN;
    while Instant::now() < end {
        if told_to_end.load(Ordering::Relaxed) {
            return false;
        }
        std::thread::sleep(LOOKS);
    }
    true
}

fn lacks_room(error: &RuntimeError) -> bool {
    match error {
        RuntimeError::Io(error) => is_full(error),
        // The record's own error.
        RuntimeError::Other { source: Some(source), .. } => is_full(&**source),
        _ => false,
    }
}

/// `lacks` says why so many bytes do not fit in a folder: the disk is not filled in order to find out, because other
/// sandboxes write to it.
fn write(
    files: &MachineFiles,
    ram: &File,
    id: &str,
    lacks: impl Fn(u64, &Path) -> std::io::Result<Option<String>>,
) -> Result<(), RuntimeError> {
    let Some((held, _)) = still(files, id)? else { return Ok(()) };
    let size = ram.metadata()?.len();
    super::remove(&files.memory_aside())?;
    if let Some(reason) = lacks(taken(ram)?, &files.dir)? {
        return Err(std::io::Error::new(ErrorKind::StorageFull, reason).into());
    }
    let aside = fs::OpenOptions::new().create_new(true).write(true).open(files.memory_aside())?;
    drop(held);
    aside.set_len(size)?;
    let wanted = || Ok(still(files, id).map_err(std::io::Error::other)?.is_some());
    if !copy(ram, aside.file(), 0, size, &wanted)? {
        return Ok(());
    }
    aside.sync_all()?;
    crash::point("the memory is copied");
    let home = SandboxRecord::read(files)?.map(|record| record.spec.home.path);
    for path in [files.memory_state(), files.root_disk()].into_iter().chain(home) {
        fs::File::open(path)?.sync_all()?;
    }
    crash::point("the disks are synced");
    let Some((_held, mut record)) = still(files, id)? else { return Ok(()) };
    fs::rename(files.memory_aside(), files.memory())?;
    crash::point("the memory has its name");
    record.memory = Kept::OnDisk { mark: FileMark::of(&files.memory())? };
    record.write_synced(files)?;
    crash::point("the memory is on the disk");
    Ok(())
}

/// The lock and the record, if it still is the one of this sleep.
fn still(files: &MachineFiles, id: &str) -> Result<Option<(Lock, SavedMemory)>, RuntimeError> {
    let Some(held) = lock_of_existing(files)? else { return Ok(None) };
    let record = SavedMemory::read(files).ok().flatten();
    Ok(record.filter(|record| record.id == id).map(|record| (held, record)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use sandbox_wire::TOKEN;

    use super::super::Held;
    use super::*;
    use crate::machine::Accel;

    /// Held memory under this id.
    fn place_of(id: &str) -> (tempfile::TempDir, MachineFiles) {
        let dir = tempfile::tempdir().unwrap();
        let files = MachineFiles::new(dir.path());
        let holder = Held::new(1, &tempfile::tempfile().unwrap()).unwrap();
        let record = SavedMemory {
            version: SavedMemory::VERSION,
            id: id.into(),
            made: BTreeMap::new(),
            disks: BTreeMap::new(),
            memory: Kept::Held { holder, taken: 0 },
            state: String::new(),
            accel: Accel::Tcg,
            tsc_khz: None,
            boot: "first".into(),
            token: [1; TOKEN],
            host_boot: String::new(),
            saved_at: 1,
        };
        record.write_synced(&files).unwrap();
        drop(super::super::lock(&files).unwrap());
        (dir, files)
    }

    #[test]
    fn a_sandbox_that_is_gone_stays_gone() {
        let dir = tempfile::tempdir().unwrap();
        let files = MachineFiles::new(&dir.path().join("gone"));
        settle(&files, &tempfile::tempfile().unwrap(), "one", &AtomicBool::new(false)).unwrap();
        assert!(!files.dir.exists());
    }

    #[test]
    fn a_full_disk_is_waited_for_and_a_broken_one_is_not() {
        let (_dir, files) = place_of("one");
        let full = || RuntimeError::from(std::io::Error::from(ErrorKind::StorageFull));
        let mut tries = 0;
        let three = |_| {
            tries += 1;
            assert!(!files.memory_aside().exists() && !files.memory().exists(), "the room was given back");
            fs::write(files.memory_aside(), "half")?;
            fs::write(files.memory(), "whole, and the record has no room")?;
            if tries < 3 { Err(full()) } else { Ok(()) }
        };
        settle_by(&files, "one", three, || true).unwrap();
        assert_eq!(tries, 3);
        assert!(matches!(SavedMemory::read(&files).unwrap().unwrap().memory, Kept::Held { .. }));
        // Woken meanwhile: nobody needs it on the disk.
        let woken = |_| {
            super::super::forget_record(&files).unwrap();
            fs::write(files.memory_aside(), "half")?;
            Err(full())
        };
        settle_by(&files, "one", woken, || true).unwrap();
        assert!(files.memory_aside().exists(), "whoever woke it clears up, and nobody else");

        let (_dir, files) = place_of("three");
        assert!(settle_by(&files, "three", |_| Err(full()), || false).is_err(), "told to end");
        assert!(matches!(SavedMemory::read(&files).unwrap().unwrap().memory, Kept::Lost { .. }));

        let (_dir, files) = place_of("two");
        let broken = |_| Err(RuntimeError::from(std::io::Error::other("the disk is broken")));
        assert!(settle_by(&files, "two", broken, || true).is_err());
        let record = SavedMemory::read(&files).unwrap().unwrap();
        assert!(matches!(record.memory, Kept::Lost { problem } if problem.contains("broken")));
    }

    #[test]
    fn a_disk_that_would_be_full_is_not_filled_to_find_out() {
        let (_dir, files) = place_of("one");
        let ram = super::super::new_ram(4096).unwrap();
        let error = write(&files, &ram, "one", |_, _| Ok(Some("1 MB is left".into()))).unwrap_err();
        assert!(lacks_room(&error) && error.to_string().contains("1 MB is left"), "{error}");
        assert!(!files.memory_aside().exists());
        // The control: with room it goes on, as far as there are files.
        assert!(write(&files, &ram, "one", |_, _| Ok(None)).is_err());
        assert!(files.memory_aside().exists());
    }

    #[test]
    fn who_is_told_to_end_tries_once_more_with_the_disks_last_bytes() {
        let (_dir, files) = place_of("one");
        let mut tries = Vec::new();
        let write = |last| {
            tries.push(last);
            if last { Ok(()) } else { Err(std::io::Error::from(ErrorKind::StorageFull).into()) }
        };
        let mut waits = [true, false].into_iter();
        settle_by(&files, "one", write, || waits.next().unwrap()).unwrap();
        assert_eq!(tries, [false, false, true]);
    }

    #[test]
    fn the_files_of_another_sleep_are_not_touched() {
        let dir = tempfile::tempdir().unwrap();
        let files = MachineFiles::new(dir.path());
        fs::write(files.memory_aside(), "of another").unwrap();
        settle(&files, &tempfile::tempfile().unwrap(), "one", &AtomicBool::new(false)).unwrap();
        assert_eq!(fs::read_to_string(files.memory_aside()).unwrap(), "of another");
    }
}

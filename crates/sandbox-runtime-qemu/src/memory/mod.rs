//! A sandbox's memory on the disk.
//!
//! ```text
//!                  asleep: record, memory held      settle: memory written, all synced
//! running ──────────────────────► saved, in a process of ours ───────────────► saved, on the disk
//!    ▲                                     │                                      │
//!    │   record removed, then the guest runs (wake)                               │
//!    └─────────────────────────────────────┴──────────────────────────────────────┘
//!                any difference, damage, change of the spec: dropped, and the next start boots
//! ```
//!
//! Rules
//! - The record alone makes memory valid. It is removed, for good, before a guest runs on the memory again:
//!   from then on the disks move on and the memory must never come back.
//! - Memory that a process of ours still holds ends with it, and with the host's boot.
//! - The memory belongs to the very disks it was saved with, and to the very programs that saved it.
//! - Whoever changes or removes the record (or removes the sandbox) holds `memory.lock`, and whoever removes the
//!   record removes what was being written for it.

mod ram;
mod record;
mod settle;

pub use ram::{Held, fill, new_ram, taken};
pub use record::{Kept, Made, SavedMemory, host_boot, state_digest};
pub use settle::settle;

use std::io::ErrorKind;
use std::path::Path;

use fs_err as fs;
use sandbox_model::ByteSize;
use sandbox_runtime::RuntimeError;
use sandbox_state::{Lock, LockMode};

use crate::error::from_state;
use crate::files::MachineFiles;

/// Held for moments, but by the finisher for as long as one piece of memory takes.
pub fn lock(files: &MachineFiles) -> Result<Lock, RuntimeError> {
    Lock::take(&files.memory_lock(), LockMode::Exclusive, "memory", |_| {}).map_err(from_state)
}

/// [`lock`] for whoever may come after the sandbox was removed, and must not make its folder again.
pub fn lock_of_existing(files: &MachineFiles) -> Result<Option<Lock>, RuntimeError> {
    Lock::take_existing(&files.memory_lock(), LockMode::Exclusive, "memory").map_err(from_state)
}

/// Bytes that saved memory takes: on the disk, or of the host's own memory while it is on its way there.
/// `None` where there is none.
pub fn saved(files: &MachineFiles) -> Option<ByteSize> {
    use std::os::unix::fs::MetadataExt;
    let blocks = |path| fs::metadata(path).map_or(0, |found| found.blocks() * 512);
    let memory = match SavedMemory::read(files) {
        Ok(record) => match record?.memory {
            Kept::Held { holder, taken } if holder.is_there() => taken,
            Kept::OnDisk { .. } => blocks(files.memory()),
            // The next start says what became of it.
            Kept::Held { .. } | Kept::Lost { .. } => return None,
        },
        Err(_) => blocks(files.memory()),
    };
    Some(ByteSize::from_bytes(memory + blocks(files.memory_state())))
}

/// Drops saved memory, and what an unclean end left of one. Returns how much saved memory gave back.
pub fn forget(files: &MachineFiles) -> Result<Option<ByteSize>, RuntimeError> {
    let _lock = lock(files)?;
    forget_locked(files)
}

/// Makes sure that what is written next is not taken for a memory before its record is there.
pub fn forget_record(files: &MachineFiles) -> Result<(), RuntimeError> {
    remove(&files.memory_record())
}

fn remove(path: &Path) -> Result<(), RuntimeError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// [`forget`] for whoever holds the lock.
pub fn forget_locked(files: &MachineFiles) -> Result<Option<ByteSize>, RuntimeError> {
    let saved = saved(files);
    let was_recorded = files.memory_record().exists();
    for path in [files.memory_record(), files.memory_state(), files.memory_aside(), files.memory()] {
        remove(&path)?;
    }
    if was_recorded {
        // It must not come back after a power loss: the disks move on.
        fs::File::open(&files.dir)?.sync_all()?;
    }
    Ok(saved)
}

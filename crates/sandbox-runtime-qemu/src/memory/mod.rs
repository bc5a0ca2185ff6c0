//! A sandbox's memory on the disk.
//!
//! ```text
//!                  asleep: record (not synced)      settle: zeros given back, synced
//! running ──────────────────────► saved, this boot of the host ──────────────► saved
//!    ▲                                     │                                      │
//!    │   record removed, then the guest runs (wake)                               │
//!    └─────────────────────────────────────┴──────────────────────────────────────┘
//!                any difference, damage, change of the spec: dropped, and the next start boots
//! ```
//!
//! Rules
//! - The record alone makes memory valid. It is removed, for good, before a guest runs on the memory again:
//!   from then on the disks move on and the memory must never come back.
//! - A record that is not synced counts only until the host restarts: a power loss may have kept the record
//!   and lost what it speaks of.
//! - The memory belongs to the very disks it was saved with, and to the very programs that saved it.
//! - Whoever removes the record (or the sandbox), or punches holes into the memory, holds `memory.lock`.

mod record;
mod settle;

pub use record::{Made, SavedMemory, host_boot, state_digest};
pub use settle::settle;

use std::io::ErrorKind;

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

/// Bytes on disk of saved memory; `None` where there is none.
pub fn saved(files: &MachineFiles) -> Option<ByteSize> {
    fs::metadata(files.memory_record()).ok()?;
    Some(on_disk(files))
}

fn on_disk(files: &MachineFiles) -> ByteSize {
    use std::os::unix::fs::MetadataExt;
    let blocks = |path| fs::metadata(path).map_or(0, |found| found.blocks() * 512);
    ByteSize::from_bytes(blocks(files.memory()) + blocks(files.memory_state()))
}

/// Drops saved memory, and what an unclean end left of one. Returns how much saved memory gave back.
pub fn forget(files: &MachineFiles) -> Result<Option<ByteSize>, RuntimeError> {
    let _lock = lock(files)?;
    forget_locked(files)
}

/// Makes sure that what is written next is not taken for a memory before its record is there.
pub fn forget_record(files: &MachineFiles) -> Result<(), RuntimeError> {
    match fs::remove_file(files.memory_record()) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// [`forget`] for whoever holds the lock.
pub fn forget_locked(files: &MachineFiles) -> Result<Option<ByteSize>, RuntimeError> {
    let saved = saved(files);
    for path in [files.memory_record(), files.memory_state(), files.memory()] {
        match fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    Ok(saved)
}

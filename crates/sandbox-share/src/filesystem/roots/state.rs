//! The state of all folders, for the next server.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use virtiofsd::filesystem::{FileSystem, SerializableFileSystem};

use super::{Roots, lowered};
use crate::filesystem::lock;
use crate::filesystem::pinned::nobody;

/// The state of one folder with a few thousand open files is smaller.
const LARGEST: u64 = 1 << 28;

impl Roots {
    pub(in crate::filesystem) fn prepare_serialization(&self, cancel: &Arc<AtomicBool>) {
        match self {
            Self::One(fs) => fs.prepare_serialization(Arc::clone(cancel)),
            Self::Several { roots, .. } => {
                for root in roots {
                    root.fs.prepare_serialization(Arc::clone(cancel));
                }
            }
        }
    }

    /// Of several, each with its length before it; then what the open handles of single files were opened as.
    pub(in crate::filesystem) fn serialize(&self, mut pipe: File) -> io::Result<()> {
        let Self::Several { roots, scratch, opened } = self else {
            let Self::One(fs) = self else { return Ok(()) };
            return fs.serialize(pipe);
        };
        self.close_replaced();
        for root in roots {
            let mut file = empty(scratch)?;
            root.fs.serialize(file.try_clone()?)?;
            file.seek(SeekFrom::Start(0))?;
            let mut state = Vec::new();
            file.read_to_end(&mut state)?;
            pipe.write_all(&(state.len() as u64).to_le_bytes())?;
            pipe.write_all(&state)?;
        }
        for number in lock(opened).iter().flat_map(|(handle, inode)| [handle, inode]) {
            pipe.write_all(&number.to_le_bytes())?;
        }
        Ok(())
    }

    /// A handle whose file was replaced cannot be opened again by a name, and the next server would not start
    /// with it: the guest is told that it is closed.
    fn close_replaced(&self) {
        let Self::Several { opened, .. } = self else { return };
        lock(opened).retain(|handle, inode| {
            let Ok((fs, upper, inode)) = self.of(*inode) else { return false };
            let there = fs.getattr(nobody(), inode, None).is_ok();
            if !there
                && let Ok(handle) = lowered(*handle, upper)
                && fs.release(nobody(), inode, 0, handle, false, false, None).is_ok()
            {
                log::warn!(
                    "a single file was replaced while it was open, and the guest goes to sleep: closed"
                );
            }
            there
        });
    }

    pub(in crate::filesystem) fn deserialize_and_apply(&self, mut pipe: File) -> io::Result<()> {
        let Self::Several { roots, scratch, opened } = self else {
            let Self::One(fs) = self else { return Ok(()) };
            return fs.deserialize_and_apply(pipe);
        };
        for root in roots {
            let mut length = [0; 8];
            pipe.read_exact(&mut length)?;
            let length = u64::from_le_bytes(length);
            if length > LARGEST {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a folder's state is too large"));
            }
            let mut state = Vec::new();
            Read::by_ref(&mut pipe).take(length).read_to_end(&mut state)?;
            let mut file = empty(scratch)?;
            file.write_all(&state)?;
            file.seek(SeekFrom::Start(0))?;
            rustix::process::fchdir(&root.dir)?;
            root.fs.deserialize_and_apply(file)?;
        }
        let mut numbers = Vec::new();
        Read::by_ref(&mut pipe).take(LARGEST).read_to_end(&mut numbers)?;
        let (numbers, _) = numbers.as_chunks();
        let (pairs, _) = numbers.as_chunks();
        *lock(opened) = pairs
            .iter()
            .map(|[handle, inode]| (u64::from_le_bytes(*handle), u64::from_le_bytes(*inode)))
            .collect();
        Ok(())
    }
}

fn empty(scratch: &File) -> io::Result<File> {
    let mut file = scratch.try_clone()?;
    file.set_len(0)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(file)
}

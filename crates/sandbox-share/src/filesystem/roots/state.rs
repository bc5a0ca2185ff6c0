//! The state of all folders, for the next server.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use virtiofsd::filesystem::SerializableFileSystem;

use super::Roots;

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

    /// Of several, each with its length before it.
    pub(in crate::filesystem) fn serialize(&self, mut pipe: File) -> io::Result<()> {
        let Self::Several { roots, scratch, .. } = self else {
            let Self::One(fs) = self else { return Ok(()) };
            return fs.serialize(pipe);
        };
        for root in roots {
            let mut file = empty(scratch)?;
            root.fs.serialize(file.try_clone()?)?;
            file.seek(SeekFrom::Start(0))?;
            let mut state = Vec::new();
            file.read_to_end(&mut state)?;
            pipe.write_all(&(state.len() as u64).to_le_bytes())?;
            pipe.write_all(&state)?;
        }
        Ok(())
    }

    pub(in crate::filesystem) fn deserialize_and_apply(&self, mut pipe: File) -> io::Result<()> {
        let Self::Several { roots, scratch, .. } = self else {
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
        Ok(())
    }
}

fn empty(scratch: &File) -> io::Result<File> {
    let mut file = scratch.try_clone()?;
    file.set_len(0)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(file)
}

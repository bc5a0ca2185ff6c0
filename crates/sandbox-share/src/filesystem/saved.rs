//! The state of a share on its way from one server to the next, while the guest's memory is on the disk.
//!
//! ```text
//!  length of ours (u64, little endian) │ ours: table, quota, what was negotiated │ the pass-through's own
//! ```

use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};
use virtiofsd::filesystem::SerializableFileSystem;

use super::ShareFs;
use super::pinned::nobody;
use crate::nodes::{NodeTable, SavedNodes};
use crate::quota::Quota;

/// Raised when [`Saved`] changes shape.
const VERSION: u32 = 4;
/// A table of a few million files is smaller than this.
const LARGEST: u64 = 1 << 30;

#[derive(Serialize, Deserialize)]
struct Saved {
    version: u32,
    nodes: SavedNodes,
    quota: Quota,
    direct_io: bool,
    submounts: bool,
}

impl SerializableFileSystem for ShareFs {
    fn prepare_serialization(&self, cancel: Arc<AtomicBool>) {
        {
            let mut nodes = self.nodes();
            nodes.evict_all();
            self.tidy(&mut nodes);
        }
        self.inner.prepare_serialization(&cancel);
    }

    fn serialize(&self, mut pipe: File) -> io::Result<()> {
        let saved = Saved {
            version: VERSION,
            nodes: self.nodes().save(),
            quota: self.quota().clone(),
            direct_io: self.direct_io.load(Ordering::Relaxed),
            submounts: self.submounts.load(Ordering::Relaxed),
        };
        let bytes = postcard::to_stdvec(&saved).map_err(io::Error::other)?;
        pipe.write_all(&(bytes.len() as u64).to_le_bytes())?;
        pipe.write_all(&bytes)?;
        self.inner.serialize(pipe)
    }

    fn deserialize_and_apply(&self, mut pipe: File) -> io::Result<()> {
        let mut length = [0; 8];
        pipe.read_exact(&mut length)?;
        let length = u64::from_le_bytes(length);
        if length > LARGEST {
            return Err(malformed("the share's state is too large"));
        }
        let mut bytes = Vec::new();
        Read::by_ref(&mut pipe).take(length).read_to_end(&mut bytes)?;
        let saved: Saved =
            postcard::from_bytes(&bytes).map_err(|_| malformed("the share's state is damaged"))?;
        if saved.version != VERSION {
            return Err(malformed("the share's state is of another version"));
        }
        self.inner.deserialize_and_apply(pipe)?;
        self.direct_io.store(saved.direct_io, Ordering::Relaxed);
        self.submounts.store(saved.submounts, Ordering::Relaxed);
        *self.quota() = saved.quota;
        self.take_over(saved.nodes);
        Ok(())
    }
}

impl ShareFs {
    /// Goes on with the table of another server. The host may have put other files in the place of open
    /// ones meanwhile; the guest is told that those are stale.
    fn take_over(&self, saved: SavedNodes) {
        let mut nodes = self.nodes();
        nodes.restore(saved);
        for (node, inner, ino, kind) in nodes.residents() {
            let same =
                self.attributes(inner).is_ok_and(|attr| attr.ino == ino && attr.mode & libc::S_IFMT == kind);
            // A single file is looked for by its name, whenever it is used.
            if !same && !self.is_single_file(&nodes, node) {
                log::warn!("an open file was replaced or removed while the guest slept");
                nodes.lose(node);
            }
        }
        self.find_devices(&mut nodes);
        self.tidy(&mut nodes);
    }

    /// The host may have started again meanwhile, and numbered its devices anew.
    fn find_devices(&self, nodes: &mut NodeTable) {
        for top in nodes.tops() {
            let inner = self.make_resident(nodes, nobody(), top);
            if let Ok(device) = inner.and_then(|inner| self.inner.device(inner)) {
                nodes.mounted_again(top, device);
            }
        }
    }
}

fn malformed(problem: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

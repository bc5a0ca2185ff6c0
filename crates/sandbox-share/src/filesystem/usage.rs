//! The quota around each operation that allocates.

use std::io;

use virtiofsd::fuse::Attr;

use super::pinned::Pinned;
use super::{ShareFs, error};
use crate::ledger::Space;
use crate::nodes::{FileId, InnerId, NodeId};
use crate::policy::Change;

impl ShareFs {
    /// Runs `operation`, which may allocate up to `most` bytes for the folder, inside the quota.
    /// `ENOSPC` without running it when that does not fit.
    pub(super) fn metered<T>(
        &self,
        inner: InnerId,
        most: impl FnOnce(&Attr) -> u64,
        operation: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        self.measured(inner, most, operation, |reserved, (before, after)| {
            self.quota().settle(reserved, after.allocated - before.allocated);
        })
    }

    /// As [`ShareFs::metered`], for a file: what it took is noted, and no more than that is ever credited for it.
    pub(super) fn metered_file<T>(
        &self,
        node: NodeId,
        inner: InnerId,
        most: impl FnOnce(&Attr) -> u64,
        operation: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        self.measured(inner, most, operation, |reserved, change| {
            let nodes = self.nodes();
            let file = nodes.file(node);
            let open = nodes.is_open(node) || nodes.is_open_anywhere(file);
            drop(nodes);
            self.quota().changed(file, reserved, change, open);
        })
    }

    fn measured<T>(
        &self,
        inner: InnerId,
        most: impl FnOnce(&Attr) -> u64,
        operation: impl FnOnce() -> io::Result<T>,
        settle: impl FnOnce(u64, (Space, Space)),
    ) -> io::Result<T> {
        if !self.quota().is_limited() {
            return operation();
        }
        let before = self.attributes(inner)?;
        let reserved = most(&before);
        if self.quota().reserve(reserved).is_err() {
            return error(libc::ENOSPC);
        }
        let result = operation();
        let after = self.attributes(inner).map_or_else(|_| space(&before), |attr| space(&attr));
        settle(reserved, (space(&before), after));
        result
    }

    /// As [`ShareFs::metered_file`], for what is done through `handle`. A single file that was replaced since
    /// it was opened cannot be looked at any more: all that the operation may take stays charged.
    pub(super) fn metered_handle<T>(
        &self,
        file: &Pinned<'_>,
        handle: u64,
        most: impl FnOnce(&Attr) -> u64,
        operation: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        if self.inner.is_of(handle, file.inner) {
            return self.metered_file(file.node, file.inner, most, operation);
        }
        // It looks at the quota itself.
        let most = most(&Attr::default());
        if self.quota().reserve(most).is_err() {
            return error(libc::ENOSPC);
        }
        operation()
    }

    /// The last handle of `node` was closed. Another node of the same file may be open still.
    pub(super) fn settle_closed(&self, node: NodeId, inner: InnerId) {
        let nodes = self.nodes();
        let file = nodes.file(node);
        let open = nodes.is_open_anywhere(file);
        drop(nodes);
        if !open {
            self.credit_closed(file, inner);
        }
    }

    /// Nobody has `file` open any more.
    pub(super) fn credit_closed(&self, file: FileId, inner: InnerId) {
        if self.quota().minds(file)
            && let Ok(attr) = self.attributes(inner)
        {
            let nameless = attr.mode & libc::S_IFMT == libc::S_IFDIR || attr.nlink == 0;
            self.quota().closed(file, space(&attr), nameless);
        }
    }

    /// A new file with `attr` was made in `parent`.
    pub(super) fn charge_new(&self, parent: NodeId, attr: &Attr) {
        let file = self.nodes().file_in(parent, attr.ino);
        self.quota().made(file, space(attr));
    }

    /// `ENOSPC` when no file can be added, and `ENFILE` when the guest has too many in mind, or open.
    pub(super) fn room_for_one_more(&self) -> io::Result<()> {
        let nodes = self.nodes();
        if nodes.is_full() || nodes.is_exhausted() {
            return error(libc::ENFILE);
        }
        drop(nodes);
        let quota = self.quota();
        if quota.inode_left().is_err() || quota.bytes_left().is_some_and(|left| left < crate::quota::BLOCK) {
            return error(libc::ENOSPC);
        }
        Ok(())
    }

    pub(super) fn judge(&self, change: &Change<'_>) -> io::Result<()> {
        self.policy.judge(&self.nodes(), change)
    }
}

pub(super) fn space(attr: &Attr) -> Space {
    let regular = attr.mode & libc::S_IFMT == libc::S_IFREG;
    Space { allocated: allocated(attr), size: regular.then_some(attr.size) }
}

/// Bytes on the disk. Block counts are in units of 512 bytes, whatever the file system.
fn allocated(attr: &Attr) -> i64 {
    i64::try_from(attr.blocks.saturating_mul(512)).unwrap_or(i64::MAX)
}

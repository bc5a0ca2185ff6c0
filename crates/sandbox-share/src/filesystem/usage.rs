//! The quota around each operation that allocates.

use std::io;

use virtiofsd::fuse::Attr;

use super::pinned::Pinned;
use super::{ShareFs, error};
use crate::nodes::{InnerId, NodeId};
use crate::policy::Change;

impl ShareFs {
    /// Runs `operation`, which may allocate up to `most` bytes for the file, inside the quota.
    /// `ENOSPC` without running it when that does not fit.
    pub(super) fn metered<T>(
        &self,
        inner: InnerId,
        most: impl FnOnce(&Attr) -> u64,
        operation: impl FnOnce() -> io::Result<T>,
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
        let after = self.attributes(inner).map_or_else(|_| allocated(&before), |attr| allocated(&attr));
        self.quota().settle(reserved, after - allocated(&before));
        result
    }

    /// As [`ShareFs::metered`], for an open file: remembers what it took, because some file systems
    /// give back at the last close what they allocated in advance.
    pub(super) fn metered_open<T>(
        &self,
        node: NodeId,
        inner: InnerId,
        most: impl FnOnce(&Attr) -> u64,
        operation: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let result = self.metered(inner, most, operation);
        if self.quota().is_limited() && self.nodes().is_open(node) {
            let now = self.attributes(inner).map_or(0, |attr| allocated(&attr));
            self.written().insert(node, now);
        }
        result
    }

    /// As [`ShareFs::metered_open`], for what is done through `handle`. A single file that was replaced since
    /// it was opened cannot be looked at any more: all that the operation may take stays charged.
    pub(super) fn metered_handle<T>(
        &self,
        file: &Pinned<'_>,
        handle: u64,
        most: impl FnOnce(&Attr) -> u64,
        operation: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        if self.inner.is_of(handle, file.inner) {
            return self.metered_open(file.node, file.inner, most, operation);
        }
        // It looks at the quota itself.
        let most = most(&Attr::default());
        if self.quota().reserve(most).is_err() {
            return error(libc::ENOSPC);
        }
        operation()
    }

    /// The last handle of `node` was closed: credits what closing gave back, and, when no name leads
    /// to the file, all of it.
    pub(super) fn settle_closed(&self, node: NodeId, inner: InnerId, gone: bool) {
        let written = self.written().remove(&node);
        let several = self.inner.is_several();
        if !self.quota().is_limited() || (written.is_none() && !gone && !several) {
            return;
        }
        let Ok(attr) = self.attributes(inner) else { return };
        let now = allocated(&attr);
        let given_back = written.map_or(0, |written| (written - now).max(0));
        let freed = if self.is_freed(node, &attr, gone) { now } else { 0 };
        self.quota().settle(0, -(given_back + freed));
    }

    /// Whether the last close of `node` leaves nobody with the file. Roots that overlap know one file as two: another
    /// may have taken its last name away, and may still have it open.
    fn is_freed(&self, node: NodeId, attr: &Attr, gone: bool) -> bool {
        if !self.inner.is_several() {
            return gone;
        }
        let nameless = gone || attr.nlink == 0;
        if !nameless || self.nodes().is_open_anywhere(attr.ino) || !self.quota().let_go(attr.ino) {
            return false;
        }
        // What is not charged is not on the disk either: no descriptor keeps it.
        self.nodes().doom(node);
        true
    }

    /// A new file with `attr` was made.
    pub(super) fn charge_new(&self, attr: &Attr) {
        let mut quota = self.quota();
        quota.settle(0, allocated(attr));
        quota.inode_made();
    }

    /// `ENOSPC` when no file can be added, and `ENFILE` when the guest has too many in mind.
    pub(super) fn room_for_one_more(&self) -> io::Result<()> {
        if self.nodes().is_full() {
            return error(libc::ENFILE);
        }
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

/// Bytes on the disk. Block counts are in units of 512 bytes, whatever the file system.
pub(super) fn allocated(attr: &Attr) -> i64 {
    i64::try_from(attr.blocks.saturating_mul(512)).unwrap_or(i64::MAX)
}

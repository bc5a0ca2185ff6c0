//! How much the guest has added to the disk.
//!
//! Counted in allocated blocks, not in file sizes: a hole costs nothing, a file of one byte costs a
//! block. An operation first reserves the most it can allocate, then settles for what it did allocate,
//! so the sum never passes the limit while operations run. Giving back what was there before the
//! server started counts too: the guest may add the quota on top of what it found.

use serde::{Deserialize, Serialize};

use crate::ledger::{Ledger, Space};
use crate::nodes::FileId;

/// One inode may be made for so many bytes of quota: an empty file takes no block, but it does take an
/// inode.
const BYTES_PER_INODE: u64 = 4096;

/// A block is the least a file system hands out.
pub(crate) const BLOCK: u64 = 4096;

/// Bytes that a file system allocates beside what is written, to tell where that is.
const SPENT_ON_ITS_OWN: i64 = 1 << 20;

/// The quota is used up.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// What was added, against what may be.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Quota {
    /// Bytes; `None` is no limit.
    limit: Option<i64>,
    used: i64,
    inodes: i64,
    ledger: Ledger,
}

impl Quota {
    /// `bytes` of zero is no limit.
    pub(crate) fn new(bytes: u64) -> Self {
        let limit = (bytes > 0).then(|| signed(bytes));
        Self { limit, used: 0, inodes: 0, ledger: Ledger::default() }
    }

    pub(crate) fn is_limited(&self) -> bool {
        self.limit.is_some()
    }

    /// Whether more was allocated than may be: a file that has as many blocks as its size needs was taken for one
    /// without holes, and hid some, because others are behind its end. Until then all are taken for what they seem.
    /// What a file system spends on its own is no sign of that.
    pub(crate) fn is_passed(&self) -> bool {
        self.limit.is_some_and(|limit| self.used > limit.saturating_add(SPENT_ON_ITS_OWN))
    }

    /// Sets `bytes` aside. Zero always succeeds: what allocates nothing is never refused.
    pub(crate) fn reserve(&mut self, bytes: u64) -> Result<(), Full> {
        let bytes = signed(bytes);
        if let Some(limit) = self.limit
            && bytes > 0
            && self.used.saturating_add(bytes) > limit
        {
            return Err(Full);
        }
        self.used = self.used.saturating_add(bytes);
        Ok(())
    }

    /// Turns what was reserved into what was allocated, which is negative when space was given back.
    pub(crate) fn settle(&mut self, reserved: u64, allocated: i64) {
        self.used = self.used.saturating_sub(signed(reserved)).saturating_add(allocated);
    }

    /// Whether one more file may be made.
    pub(crate) fn inode_left(&self) -> Result<(), Full> {
        match self.inodes_left() {
            Some(0) => Err(Full),
            _ => Ok(()),
        }
    }

    fn inode_freed(&mut self) {
        self.inodes = self.inodes.saturating_sub(1);
    }

    /// As [`Quota::settle`], for what the guest did to `file`, which `open` tells whether it has open.
    pub(crate) fn changed(
        &mut self,
        file: FileId,
        reserved: u64,
        (before, after): (Space, Space),
        open: bool,
    ) {
        let change = self.ledger.changed(file, before, after, open);
        self.settle(reserved, change);
    }

    /// Nobody has `file` open any more: credits what closing gave back, and all of it when it was held. `nameless` is
    /// for certainty: layers of one file system may number their files alike.
    pub(crate) fn closed(&mut self, file: FileId, space: Space, nameless: bool) {
        let ends = nameless && self.ledger.let_go(file);
        let credited = if ends { self.ledger.ended(file, space) } else { self.ledger.closed(file, space) };
        self.settle(0, -credited);
    }

    /// Whether the last close of `file` may give something back.
    pub(crate) fn minds(&self, file: FileId) -> bool {
        self.ledger.knows(file) || self.ledger.holds(file)
    }

    /// `file` lost its last name. It stays charged as long as it is open.
    pub(crate) fn ended(&mut self, file: FileId, space: Space, open: bool) {
        self.inode_freed();
        if !self.is_limited() {
            return;
        }
        if open {
            self.ledger.hold(file);
        } else {
            let credited = self.ledger.ended(file, space);
            self.settle(0, -credited);
        }
    }

    /// `file` was made.
    pub(crate) fn made(&mut self, file: FileId, space: Space) {
        self.ledger.made(file);
        self.settle(0, space.allocated);
        self.inodes = self.inodes.saturating_add(1);
    }

    /// See [`Ledger::out_of_sight`].
    pub(crate) fn out_of_sight(&mut self, file: FileId) {
        if self.is_limited() {
            self.ledger.out_of_sight(file);
        }
    }

    /// Whoever had something open is gone.
    pub(crate) fn let_go_of_all(&mut self) {
        self.ledger.let_go_of_all();
    }

    /// `None` is no limit.
    pub(crate) fn limit(&self) -> Option<u64> {
        self.limit.map(i64::unsigned_abs)
    }

    /// `None` is no limit.
    pub(crate) fn bytes_left(&self) -> Option<u64> {
        self.limit.map(|limit| u64::try_from(limit.saturating_sub(self.used)).unwrap_or(0))
    }

    /// `None` is no limit.
    pub(crate) fn inodes_left(&self) -> Option<u64> {
        self.limit.map(|limit| {
            let most = limit / signed(BYTES_PER_INODE);
            u64::try_from(most.saturating_sub(self.inodes)).unwrap_or(0)
        })
    }
}

/// The most that writing `length` bytes at `offset` can allocate, in a file of `size` bytes of which
/// `allocated` are on the disk.
pub(crate) fn most_a_write_takes(size: u64, allocated: u64, offset: u64, length: u64) -> u64 {
    let end = offset.saturating_add(length);
    if end <= size && allocated >= size {
        return 0;
    }
    let first = offset / BLOCK * BLOCK;
    end.div_ceil(BLOCK).saturating_mul(BLOCK).saturating_sub(first)
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn no_limit_refuses_nothing() {
        let mut quota = Quota::new(0);
        assert!(quota.reserve(u64::MAX).is_ok());
        assert_eq!(quota.bytes_left(), None);
        assert!(quota.inode_left().is_ok());
    }

    #[test]
    fn the_last_byte_fits_and_the_next_does_not() {
        let mut quota = Quota::new(8192);
        assert!(quota.reserve(8192).is_ok());
        assert_eq!(quota.reserve(1), Err(Full));
        assert!(quota.reserve(0).is_ok());
    }

    #[test]
    fn what_was_there_before_counts_when_it_goes() {
        let mut quota = Quota::new(8192);
        quota.settle(0, -4096);
        assert_eq!(quota.bytes_left(), Some(12_288));
    }

    #[test]
    fn empty_files_are_counted_too() {
        let mut quota = Quota::new(2 * BYTES_PER_INODE);
        let (file, empty) = (FileId { volume: 1, ino: 7 }, Space { allocated: 0, size: Some(0) });
        quota.made(file, empty);
        assert!(quota.inode_left().is_ok());
        quota.made(file, empty);
        assert_eq!(quota.inode_left(), Err(Full));
        quota.ended(file, empty, true);
        assert!(quota.inode_left().is_ok());
    }

    #[test]
    fn writes_take_whole_blocks() {
        assert_eq!(most_a_write_takes(0, 0, 0, 1), BLOCK);
        assert_eq!(most_a_write_takes(0, 0, 4095, 2), 2 * BLOCK);
        assert_eq!(most_a_write_takes(8192, 8192, 0, 8192), 0);
        assert_eq!(most_a_write_takes(8192, 0, 0, 10), BLOCK);
        assert_eq!(most_a_write_takes(8192, 8192, 8192, 1), BLOCK);
    }

    proptest! {
        /// Whatever the order, as long as nothing allocates more than it reserved.
        #[test]
        fn the_sum_never_passes_the_limit(steps in prop::collection::vec((0_u64..100_000, 0_u64..=100), 1..200)) {
            let mut quota = Quota::new(1_000_000);
            let mut allocated = 0_u64;
            for (bytes, percent) in steps {
                if quota.reserve(bytes).is_ok() {
                    let taken = bytes * percent / 100;
                    quota.settle(bytes, signed(taken));
                    allocated += taken;
                }
                prop_assert!(allocated <= 1_000_000);
                prop_assert_eq!(quota.bytes_left(), Some(1_000_000 - allocated));
            }
        }

        #[test]
        fn a_write_never_takes_more_blocks_than_estimated(
            size in 0_u64..100_000, offset in 0_u64..100_000, length in 1_u64..100_000,
        ) {
            // A file without holes: what is new are the blocks behind its end.
            let allocated = size.div_ceil(BLOCK) * BLOCK;
            let after = size.max(offset + length).div_ceil(BLOCK) * BLOCK;
            let hole = (offset / BLOCK * BLOCK).saturating_sub(allocated);
            let taken = after - allocated - hole;
            prop_assert!(most_a_write_takes(size, allocated, offset, length) >= taken);
        }
    }
}

//! How much the guest has added to the disk.
//!
//! Counted in allocated blocks, not in file sizes: a hole costs nothing, a file of one byte costs a
//! block. An operation first reserves the most it can allocate, then settles for what it did allocate,
//! so the sum never passes the limit while operations run. Giving back what was there before the
//! server started counts too: the guest may add the quota on top of what it found.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

/// One inode may be made for so many bytes of quota: an empty file takes no block, but it does take an
/// inode.
const BYTES_PER_INODE: u64 = 4096;

/// A block is the least a file system hands out.
pub(crate) const BLOCK: u64 = 4096;

/// Bytes that a file system allocates beside what is written, to tell where that is.
const SPENT_ON_ITS_OWN: i64 = 1 << 20;

/// More files that were allocated in advance than this are not told apart from all others.
const MOST_AHEAD: usize = 1 << 16;

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
    /// Files without a name that are charged as long as they are open, by inode number. Only of roots that may overlap:
    /// more than one may close them, and one credits them.
    held: HashSet<u64>,
    /// Files that may have blocks behind their end, by inode number: holes before it do not show in their sizes. `None`
    /// is any file.
    ahead: Option<HashSet<u64>>,
}

impl Quota {
    /// `bytes` of zero is no limit.
    pub(crate) fn new(bytes: u64) -> Self {
        let limit = (bytes > 0).then(|| signed(bytes));
        Self { limit, used: 0, inodes: 0, held: HashSet::new(), ahead: Some(HashSet::new()) }
    }

    pub(crate) fn is_limited(&self) -> bool {
        self.limit.is_some()
    }

    /// Whether more was allocated than may be. What a file system spends on its own is no sign of that.
    fn is_passed(&self) -> bool {
        self.limit.is_some_and(|limit| self.used > limit.saturating_add(SPENT_ON_ITS_OWN))
    }

    /// The guest allocates for the file without changing its size. Whether that is behind its end is not asked: the
    /// size may be another one by then.
    pub(crate) fn allocated_ahead(&mut self, ino: u64) {
        if let Some(known) = &mut self.ahead {
            known.insert(ino);
            if known.len() > MOST_AHEAD {
                self.ahead = None;
            }
        }
    }

    /// Whether a file that has as many blocks as its size needs is taken for one without holes. Once the quota is
    /// passed, one that may hide some is not. All others are written over all the same: of what is in the guest's page
    /// cache, programs were told that it is written.
    pub(crate) fn trusts(&self, ino: u64) -> bool {
        !self.is_passed() || self.ahead.as_ref().is_some_and(|known| !known.contains(&ino))
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

    pub(crate) fn inode_made(&mut self) {
        self.inodes = self.inodes.saturating_add(1);
    }

    pub(crate) fn inode_freed(&mut self) {
        self.inodes = self.inodes.saturating_sub(1);
    }

    /// The file lost its last name, and is charged until [`Quota::let_go`].
    pub(crate) fn hold(&mut self, ino: u64) {
        if self.is_limited() {
            self.held.insert(ino);
        }
    }

    /// Nobody has the file open any more: whether it was held, and is to be credited now.
    pub(crate) fn let_go(&mut self, ino: u64) -> bool {
        self.held.remove(&ino)
    }

    /// Whoever had something open is gone.
    pub(crate) fn let_go_of_all(&mut self) {
        self.held.clear();
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
    fn only_what_was_allocated_in_advance_is_distrusted_and_only_past_the_quota() {
        let mut quota = Quota::new(8192);
        quota.allocated_ahead(7);
        assert!(quota.trusts(7) && quota.trusts(8));
        quota.settle(0, 2 * SPENT_ON_ITS_OWN);
        assert!(!quota.trusts(7) && quota.trusts(8));
        (0..=MOST_AHEAD as u64).for_each(|ino| quota.allocated_ahead(ino));
        assert!(!quota.trusts(u64::MAX), "so many are not remembered");
    }

    #[test]
    fn empty_files_are_counted_too() {
        let mut quota = Quota::new(2 * BYTES_PER_INODE);
        quota.inode_made();
        assert!(quota.inode_left().is_ok());
        quota.inode_made();
        assert_eq!(quota.inode_left(), Err(Full));
        quota.inode_freed();
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

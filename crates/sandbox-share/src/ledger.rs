//! What each file is charged with: no more than that is ever credited for it.
//!
//! A file system allocates on its own too, long after a write: blocks that tell where scattered data is, for one. If
//! those were credited with the file, a guest that writes and removes would get more back than it was charged each
//! time. So the ledger keeps what each file was charged (or had when it was first seen), until the file is one whose
//! size tells it.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use crate::nodes::FileId;
use crate::quota::BLOCK;

/// A file on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Space {
    /// Bytes.
    pub allocated: i64,
    /// Of a regular file.
    pub size: Option<u64>,
}

impl Space {
    /// What a file without holes takes that has nothing behind its end.
    fn whole(self) -> i64 {
        self.size.map_or(self.allocated, |size| {
            i64::try_from(size.div_ceil(BLOCK).saturating_mul(BLOCK)).unwrap_or(i64::MAX)
        })
    }

    /// What it is charged with that the ledger does not know.
    fn contents(self) -> i64 {
        self.allocated.min(self.whole())
    }
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Ledger {
    charged: HashMap<FileId, i64>,
    /// Files without a name that are charged as long as they are open.
    held: HashSet<FileId>,
}

impl Ledger {
    /// The guest did something to `file`, which `open` tells whether it has open. What is to be charged for that;
    /// negative is credited.
    pub(crate) fn changed(&mut self, file: FileId, before: Space, after: Space, open: bool) -> i64 {
        let charged = self.charged.get(&file).copied().unwrap_or_else(|| before.contents());
        let change = after.allocated.saturating_sub(before.allocated).max(-charged);
        self.keep(file, charged.saturating_add(change), after, open);
        change
    }

    /// Nobody has `file` open any more: what its file system gave back, having allocated it in advance.
    pub(crate) fn closed(&mut self, file: FileId, space: Space) -> i64 {
        let Some(&charged) = self.charged.get(&file) else { return 0 };
        let given_back = charged.saturating_sub(space.allocated).max(0);
        self.keep(file, charged - given_back, space, false);
        given_back
    }

    /// Nothing leads to `file` any more: what is to be credited for all of it.
    pub(crate) fn ended(&mut self, file: FileId, space: Space) -> i64 {
        self.charged.remove(&file).unwrap_or_else(|| space.contents())
    }

    /// `file` was made just now: one that had its number is gone.
    pub(crate) fn made(&mut self, file: FileId) {
        self.charged.remove(&file);
    }

    /// `file` may change unseen: of what it takes on that way nothing is credited.
    pub(crate) fn out_of_sight(&mut self, file: FileId) {
        self.charged.entry(file).or_insert(0);
    }

    pub(crate) fn knows(&self, file: FileId) -> bool {
        self.charged.contains_key(&file)
    }

    /// `file` lost its last name while it is open.
    pub(crate) fn hold(&mut self, file: FileId) {
        self.held.insert(file);
    }

    pub(crate) fn holds(&self, file: FileId) -> bool {
        self.held.contains(&file)
    }

    /// Nobody has `file` open any more: whether it was held, and has ended now.
    pub(crate) fn let_go(&mut self, file: FileId) -> bool {
        self.held.remove(&file)
    }

    /// Whoever had something open is gone.
    pub(crate) fn let_go_of_all(&mut self) {
        self.held.clear();
    }

    fn keep(&mut self, file: FileId, charged: i64, space: Space, open: bool) {
        if !open && charged == space.whole() {
            self.charged.remove(&file);
        } else {
            self.charged.insert(file, charged);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileId = FileId { volume: 1, ino: 7 };
    const EMPTY: Space = Space { allocated: 0, size: Some(0) };

    fn of(blocks: u64, size: u64) -> Space {
        Space { allocated: i64::try_from(blocks * BLOCK).unwrap(), size: Some(size * BLOCK) }
    }

    #[test]
    fn what_a_file_system_adds_on_its_own_is_not_credited() {
        for (ends, size) in [(true, 9), (false, 9), (true, 5), (false, 5)] {
            let mut ledger = Ledger::default();
            let charged = ledger.changed(FILE, EMPTY, of(5, size), true);
            assert_eq!(ledger.closed(FILE, of(5, size)), 0);
            // One more block, to tell where the five are.
            let credited = if ends {
                ledger.ended(FILE, of(6, size))
            } else {
                -ledger.changed(FILE, of(6, size), EMPTY, false)
            };
            assert_eq!(credited, charged);
        }
    }

    #[test]
    fn what_was_allocated_in_advance_is_credited_once() {
        let mut ledger = Ledger::default();
        assert_eq!(ledger.changed(FILE, EMPTY, of(8, 2), true), 8 * 4096);
        assert_eq!(ledger.closed(FILE, of(2, 2)), 6 * 4096);
        assert!(!ledger.knows(FILE), "its size tells it");
        assert_eq!(ledger.closed(FILE, of(2, 2)), 0);
        assert_eq!(ledger.ended(FILE, of(2, 2)), 2 * 4096);
    }

    #[test]
    fn files_of_two_file_systems_are_two_though_they_have_one_number() {
        let mut ledger = Ledger::default();
        let other = FileId { volume: 2, ..FILE };
        ledger.hold(FILE);
        ledger.hold(other);
        assert!(ledger.let_go(FILE) && !ledger.let_go(FILE) && ledger.let_go(other));
    }
}

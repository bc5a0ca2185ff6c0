//! How many open files the guest may cause here.

use crate::error::ShareError;

/// Kept for the server itself: sockets, rings, event counters, the memory of the guest, and the
/// files a single request opens for a moment.
const RESERVE: u64 = 128;
/// Below this a guest can hardly work.
const LEAST: u64 = 512;
/// Every descriptor also holds an inode in the host kernel's memory, so a generous limit is not used up.
const MOST_CACHED: u64 = 65_536;

/// The two bounds, both counting cached files and open ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Descriptors {
    /// Where the server starts to close cached files.
    pub budget: u64,
    /// Where it refuses to open more.
    pub hard: u64,
}

impl Descriptors {
    /// Divides `limit`, the number of files this process may have open. The budget is `wanted`, or
    /// 60 % of the limit: the rest is for files that are open and so cannot be closed.
    pub(crate) fn divide(limit: u64, wanted: Option<u64>) -> Result<Self, ShareError> {
        if limit < LEAST {
            return Err(ShareError::TooFewDescriptors { limit, least: LEAST });
        }
        let hard = limit - RESERVE;
        let share = (hard / 10 * 6).min(MOST_CACHED);
        // Eviction comes after a file was opened, so even a wish leaves some room.
        let most = hard / 10 * 9;
        Ok(Self { budget: wanted.unwrap_or(share).min(most), hard })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_leaves_room_for_open_files() {
        let divided = Descriptors::divide(20_000, None).unwrap();
        assert_eq!(divided, Descriptors { budget: 11_922, hard: 19_872 });
    }

    #[test]
    fn a_wish_counts_up_to_the_limit() {
        assert_eq!(Descriptors::divide(20_000, Some(3_000)).unwrap().budget, 3_000);
        assert_eq!(Descriptors::divide(20_000, Some(u64::MAX)).unwrap().budget, 17_883);
    }

    #[test]
    fn a_huge_limit_is_not_used_up() {
        assert_eq!(Descriptors::divide(1 << 20, None).unwrap().budget, MOST_CACHED);
    }

    #[test]
    fn a_tiny_limit_is_refused() {
        assert!(matches!(Descriptors::divide(64, None), Err(ShareError::TooFewDescriptors { .. })));
    }
}

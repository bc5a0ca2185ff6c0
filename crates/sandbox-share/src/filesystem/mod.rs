//! The file system the guest talks to: the pass-through one with our numbers for files, the owner's
//! ids, the quota and the policy around it.
//!
//! `request` is the table of all requests; each verb that needs more than a pass through has a file.

mod entries;
mod io;
mod pinned;
mod remove;
mod rename;
mod request;
mod roots;
mod saved;
#[cfg(test)]
mod tests;
mod usage;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub(crate) use roots::{MOST, Root, Roots};

use crate::nodes::NodeTable;
use crate::policy::Policy;
use crate::quota::Quota;

/// How long the guest may believe a name, its absence, or a file's attributes without asking: a change
/// made on the host is seen in the guest after this time at the latest.
pub(crate) const BELIEF: Duration = Duration::from_secs(1);

/// One shared folder.
pub(crate) struct ShareFs {
    inner: Roots,
    policy: Box<dyn Policy>,
    nodes: Mutex<NodeTable>,
    quota: Mutex<Quota>,
    /// Whether files opened past the guest's cache may still be mapped into memory there.
    direct_io: AtomicBool,
    /// Whether the guest wants to know of file systems mounted inside the folder.
    submounts: AtomicBool,
}

impl ShareFs {
    /// Wraps `inner`. `budget` counts cached and open files, `quota_bytes` is 0 for no limit.
    pub(crate) fn new(
        inner: impl Into<Roots>,
        policy: Box<dyn Policy>,
        budget: u64,
        quota_bytes: u64,
    ) -> Self {
        Self {
            inner: inner.into(),
            policy,
            nodes: Mutex::new(NodeTable::new(budget)),
            quota: Mutex::new(Quota::new(quota_bytes)),
            direct_io: AtomicBool::new(false),
            submounts: AtomicBool::new(false),
        }
    }

    /// `hard` is how many files `inner` opens at most, counted as the budget.
    pub(crate) fn opening_at_most(self, hard: u64) -> Self {
        self.nodes().set_hard(hard);
        self
    }

    fn nodes(&self) -> MutexGuard<'_, NodeTable> {
        lock(&self.nodes)
    }

    fn quota(&self) -> MutexGuard<'_, Quota> {
        lock(&self.quota)
    }

    fn knows_submounts(&self) -> bool {
        self.submounts.load(Ordering::Relaxed)
    }
}

/// A panic in one request must not end all others.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn error<T>(number: i32) -> std::io::Result<T> {
    Err(std::io::Error::from_raw_os_error(number))
}

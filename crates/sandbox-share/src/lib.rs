//! The share server: one checkout, served to one guest over virtiofs, by a process with no rights
//! beyond those of the checkout's owner.
//!
//! ```text
//!  guest kernel ── virtiofs ── QEMU ── vhost-user socket ──► this process
//!
//!   filesystem   what each request means: names, ids, set-id bits, the quota
//!     ├─ nodes     which of the guest's files hold a descriptor here (pure)
//!     ├─ quota     what the guest has added (pure)
//!     ├─ ledger    what of that is which file's (pure)
//!     ├─ policy    what the guest may change: the place for a guard
//!     └─ virtiofsd's PassthroughFs   the system calls
//!   process      owner, namespaces, capabilities, system-call filter, lifeline
//!   serve        the order in which all of that happens
//! ```
//!
//! Files that anyone in the guest makes belong to the owner on the host; files of the owner show as
//! the guest's own user; no set-id bit and no device reaches the host.

mod config;
mod descriptors;
mod error;
mod filesystem;
mod ids;
mod ledger;
mod nodes;
mod policy;
mod process;
mod quota;
mod serve;

pub use config::{ShareConfig, SharePart};
pub use error::ShareError;
pub use serve::serve;

//! Everything this program writes to disk: where it is, how it is written, and how it is locked.
//!
//! A lock is held on an open file, and its holder writes who it is into the file for whoever waits. The file is never
//! unlinked, but for those of claims, which their holders remove: whoever takes one looks whether it is still there.
//! `docs/state-on-disk.md` says in which order locks are taken.

mod approvals;
mod atomic;
pub mod crash;
mod error;
mod layout;
mod lock;
mod record;
mod resolved;
mod sandbox_record;
mod socket;
mod space;
mod system_tool;
mod writable;

pub use approvals::{Approval, ApprovalsRecord};
pub use atomic::{
    make_private_dir, read_record, read_versioned, write_private, write_private_once, write_record,
};
pub use error::StateError;
pub use layout::{Environment, KeeperFiles, Layout, MsbFiles, QemuLayout, SandboxFiles};
pub use lock::{Lock, LockHolder, LockMode, is_locked, read_holder};
pub use record::Stamp;
pub use resolved::open_resolved;
pub use sandbox_record::{
    AgentState, AgentVersion, DaemonRecord, ImageAgent, NewestAgent, ProjectState, ProvisionRecord,
    SeenWorktree, VersionsRecord,
};
pub use socket::{bind_socket, connect_socket};
pub use space::check_space;
pub use system_tool::find_system_tool;
pub use writable::{remember_writable, writable_folders};

//! The private microsandbox runtime: a pinned `msb` and its kernel library under our own data folder.
//!
//! Nothing here reads or writes `~/.microsandbox`, and no `msb` that happens to be on the machine is
//! ever used.

mod install;

pub use install::{InstallEvent, Installed, RuntimeInstallError, RuntimeSource, ensure};

//! Sandboxes on microsandbox: a pinned `msb` and its kernel library under our own data folder, driven over
//! its command line.
//!
//! ```text
//! record ──create/start──► msb ──► machine
//!   ▲                       ▲        ▲
//!   │ spec                  │ list   │ msb exec: one link of the link process, a stream per command
//!   └── inspect, list ──────┘        └── guest program, one of all links
//! ```
//!
//! What a sandbox reaches, it reaches through a process of ours, which lives as long as its machine ([`serve_outlet`]).
//!
//! Nothing here reads or writes `~/.microsandbox`, and no `msb` that happens to be on the machine is
//! ever used.

mod answer;
mod answers;
mod boot;
mod call;
mod command;
mod driver;
mod environment;
mod error;
mod files;
mod first_boot;
mod guest_program;
mod hold;
mod images;
mod install;
mod link;
pub mod link_process;
mod machine;
mod options;
mod outlet;
mod patience;
mod power;
mod record;
mod roster;
mod routes;
mod sessions;
mod told;

pub use command::ADDRESS_POOLS;
pub use driver::MsbRuntime;
pub use first_boot::first_boot;
pub use install::{
    Found, InstallEvent, Installation, Installed, RuntimeInstallError, RuntimeSource, VERSION, ensure,
    get as download, installation, uninstall,
};
pub use options::MsbOptions;
pub use outlet::{OutletProcessError, serve as serve_outlet};
pub use patience::Patience;

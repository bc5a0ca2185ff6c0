//! The use cases of agents-sandbox: bring a sandbox up, make the agent's server answer, stop, kill,
//! remove, list.
//!
//! Nothing here prints or knows a command's name: steps, facts and warnings go to a [`Reporter`] that the
//! program implements, failures are [`LifecycleError`]s. Nothing here knows which runtime it drives.
//!
//! ```text
//! up ─► lease ─(running, nothing changed)────────────────────────────────────────────► Up
//!         │
//!         └─► boot lock ─► image ─► home volume ─► create │ update ─► start ─► keeper ─► lease ─► Up
//! Up ─► provision ─► ensure_daemon ─► agent_command ─► Runtime::exec (the program owns the terminal)
//! ```

mod abandon;
mod activity;
mod build;
mod command;
mod context;
mod daemon;
mod decisions;
mod difference;
mod docker;
mod drift;
mod error;
mod events;
mod holders;
mod home_volume;
mod host_path;
mod images;
mod keeper;
mod kept;
mod kill;
mod leftovers;
mod legacy;
mod list;
mod locks;
mod logs;
mod memory;
mod owner;
mod provision;
pub mod prune;
mod remove;
mod remove_image;
mod request;
mod serve;
mod stage;
mod stop;
pub mod storage;
mod target;
mod up;
mod versions;
pub mod volumes;
mod worktree;

pub use abandon::abandon;
pub use activity::agent_activity;
pub use build::{Built, build};
pub use command::{agent_command, exec_command, shell_command};
pub use context::{Context, Identity, Reporter, Silent, Step};
pub use daemon::{Daemon, daemon_of_kept_client, ensure_daemon, warm_up};
pub use decisions::{
    Decisions, Declined, HomeChoice, HomeQuestion, KeepAll, RunningChoice, RunningQuestion, ServerChoice,
    ServerQuestion, SleepingQuestion, VersionChoice, VersionQuestion,
};
pub use docker::ensure_docker;
pub use drift::{Change, Class, Facts, drift, home_choice_needed};
pub use error::{LifecycleError, Result};
pub use events::events;
pub use host_path::rewrite_worktree_pointers;
pub use images::{EngineImage, EngineImages, Images, dockerfile};
pub use kept::{detached_session, end_lost_clients, unseen_ends};
pub use kill::kill;
pub use legacy::sandbox_name;
pub use list::{ListFilter, Listing, Row, list};
pub use logs::{Log, logs};
pub use provision::{
    Assembly, Fate, Hook, Item, Layer, Provisioned, StartupHook, assemble, open_host_file, provision,
    startup_hooks, walls,
};
pub use remove::{Removed, remove};
pub use remove_image::{RemovedImage, remove_image};
pub use request::{
    BuildRequest, HomeMapping, ImageSettings, Project, ProvisionSettings, Repository, SandboxSettings,
    UpRequest,
};
pub use sandbox_agents::{
    Events, Notice, Occasion, Profile as AgentProfile, SessionWatch, UnknownAgent, Worktree, profile,
};
pub use sandbox_keeper::{Lease, SshAgentOffer};
pub use serve::{Served, serve};
pub use stage::Stage;
pub use stop::{Ended, keeper_status, rest, stop};
pub use target::Target;
pub use up::live_ports::{add as add_ports, published as published_ports, remove as remove_ports};
pub use up::port_holder::PortHolder;
pub use up::{Extent, Rehearsal, Up, rehearse, up};
pub use versions::{
    AgentVersions, agent_versions, ask_newest, newest, newest_is_due, offer_newer, wanted_version,
};
pub use worktree::{
    Held, InvalidWorktree, Opened, WorktreeWish, drop_worktree, list_worktrees, open_worktree,
    worktrees_of_checkout,
};

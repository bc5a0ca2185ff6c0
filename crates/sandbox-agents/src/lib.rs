//! The agents: how each is installed, configured, started and asked what it does.
//!
//! One file per agent, in `src/agents`, holds everything that is true of it alone; a new agent is a new file there.

mod agents;
mod command;
mod error;
mod events;
mod health;
mod http;
mod profile;
mod server;
mod sessions;
mod versions;
mod warm_up;
mod worktrees;

pub use agents::{named, names, profile, profiles};
pub use command::{AgentCommand, Launch};
pub use error::{ServerError, UnknownAgent};
pub use events::{Events, Notice, Occasion, SessionWatch};
pub use health::{Health, health};
pub use profile::{ConfigFiles, DaemonProfile, Install, OwnFiles, Profile, WorktreeApi};
pub use server::{DAEMON_PORT, Dial, Server};
pub use sessions::{ServerActivity, activity};
pub use versions::{NPM_DEADLINE, is_newer, newest_argv, newest_of};
pub use warm_up::warm_up;
pub use worktrees::{Worktree, create_worktree, remove_worktree, worktrees};

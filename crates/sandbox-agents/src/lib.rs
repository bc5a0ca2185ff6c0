//! The agents: how each is installed, configured, started and asked what it does.
//!
//! One file per agent holds everything that is true of it alone; a new agent is a new file, a line in
//! [`profile`] and a variant of [`AgentName`](sandbox_model::AgentName).

mod claude_code;
mod command;
mod error;
mod health;
mod http;
mod opencode;
mod opencode2;
mod pi;
mod profile;
mod server;
mod sessions;

pub use command::{AgentCommand, Launch};
pub use error::ServerError;
pub use health::{Health, health};
pub use profile::{ConfigFiles, DaemonProfile, Install, Profile, profile};
pub use server::{DAEMON_PORT, Dial, Server};
pub use sessions::{ServerActivity, activity};

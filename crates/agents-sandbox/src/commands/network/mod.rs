//! The `network` group: what sandboxes reach, and changing it.

mod change;
mod events;
mod log;
mod summary;

use clap::Subcommand;

use super::CommandResult;
use crate::app::App;
use events::{Blocked, Events, blocked};
pub use summary::summary;

/// What a sandbox may reach: see what it tried, and change the rules
#[derive(Debug, Subcommand)]
#[command(visible_alias = "net")]
pub enum NetworkCommand {
    Log(log::LogArgs),
    Allow(change::AllowArgs),
    Deny(change::DenyArgs),
}

pub fn run(app: &App, command: &NetworkCommand) -> CommandResult {
    match command {
        NetworkCommand::Log(args) => log::run(app, args),
        NetworkCommand::Allow(args) => change::allow(app, args),
        NetworkCommand::Deny(args) => change::deny(app, args),
    }
}

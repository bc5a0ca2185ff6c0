//! The `runtime` group: the private microsandbox, and which runtime is used.

mod install;
mod remove;
mod status;

use clap::Subcommand;

use super::CommandResult;
use crate::app::App;

/// Everything that works on what runs sandboxes
#[derive(Debug, Subcommand)]
pub enum RuntimeCommand {
    Status(status::StatusArgs),
    Install(install::InstallArgs),
    Remove(remove::RemoveArgs),
}

pub fn run(app: &App, command: &RuntimeCommand) -> CommandResult {
    match command {
        RuntimeCommand::Status(args) => status::run(app, args),
        RuntimeCommand::Install(args) => install::run(app, args),
        RuntimeCommand::Remove(args) => remove::run(app, args),
    }
}

//! The `sandbox` group: the same commands, under the noun they work on.

use clap::Subcommand;
use sandbox_lifecycle::prune::Kinds;

use super::{CommandResult, inspect, kill, list, prune, remove, run, shell, stop};
use crate::app::App;

/// Everything that works on sandboxes
#[derive(Debug, Subcommand)]
#[command(visible_alias = "sb")]
pub enum SandboxCommand {
    List(list::ListArgs),
    Run(run::RunArgs),
    Shell(shell::ShellArgs),
    Stop(stop::StopArgs),
    Kill(kill::KillArgs),
    Remove(remove::RemoveArgs),
    Inspect(inspect::InspectArgs),
    Prune(prune::SandboxPruneArgs),
}

impl SandboxCommand {
    pub const fn ends_or_looks(&self) -> bool {
        match self {
            Self::List(_) | Self::Stop(_) | Self::Kill(_) | Self::Remove(_) | Self::Inspect(_) => true,
            Self::Run(_) | Self::Shell(_) | Self::Prune(_) => false,
        }
    }
}

pub fn run(app: &App, command: &SandboxCommand) -> CommandResult {
    match command {
        SandboxCommand::List(args) => list::run(app, args),
        SandboxCommand::Run(args) => run::run(app, args),
        SandboxCommand::Shell(args) => shell::run(app, args),
        SandboxCommand::Stop(args) => stop::run(app, args),
        SandboxCommand::Kill(args) => kill::run(app, args),
        SandboxCommand::Remove(args) => remove::run(app, args),
        SandboxCommand::Inspect(args) => inspect::run(app, args),
        SandboxCommand::Prune(args) => prune::run(app, &args.options, Kinds::SANDBOXES),
    }
}

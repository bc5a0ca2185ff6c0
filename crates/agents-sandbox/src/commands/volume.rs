//! The `volume` group.

mod edit;
mod inspect;
mod list;
mod remove;
mod replace;

use clap::Subcommand;
use sandbox_lifecycle::prune::Kinds;

use super::{CommandResult, prune};
use crate::app::App;

/// Everything that works on home volumes
#[derive(Debug, Subcommand)]
#[command(visible_alias = "vol")]
pub enum VolumeCommand {
    List(list::VolumeListArgs),
    Migrate(replace::MigrateArgs),
    Reset(replace::ResetArgs),
    Edit(edit::EditArgs),
    Remove(remove::VolumeRemoveArgs),
    Inspect(inspect::VolumeInspectArgs),
    Prune(prune::VolumePruneArgs),
}

pub fn run(app: &App, command: &VolumeCommand) -> CommandResult {
    match command {
        VolumeCommand::List(args) => list::run(app, args),
        VolumeCommand::Migrate(args) => replace::migrate(app, args),
        VolumeCommand::Reset(args) => replace::reset(app, args),
        VolumeCommand::Edit(args) => edit::run(app, args),
        VolumeCommand::Remove(args) => remove::run(app, args),
        VolumeCommand::Inspect(args) => inspect::run(app, args),
        VolumeCommand::Prune(args) => prune::run(app, &args.options, Kinds::VOLUMES),
    }
}

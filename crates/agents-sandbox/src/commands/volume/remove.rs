//! `volume remove`: delete a home volume by name.

use clap::Args;
use sandbox_lifecycle::volumes::remove;
use sandbox_model::VolumeName;

use crate::app::App;
use crate::commands::CommandResult;
use crate::exit::Exit;

/// Remove a home volume, for good; one that a sandbox has is refused
#[derive(Debug, Clone, Args)]
#[command(
    visible_alias = "rm",
    after_help = "\
Examples:
  agents-sandbox volume list                   see the names
  agents-sandbox volume remove --dry-run NAME  see whether it may go, and what that frees
  agents-sandbox volume remove NAME"
)]
pub struct VolumeRemoveArgs {
    /// Its name, as `agents-sandbox volume list` shows it
    #[arg(value_name = "NAME")]
    pub name: VolumeName,

    /// Say what would be done, and do nothing
    #[arg(long, short = 'n')]
    pub dry_run: bool,
}

pub fn run(app: &App, args: &VolumeRemoveArgs) -> CommandResult {
    let removed = remove(&app.context()?, &args.name, args.dry_run)?;
    let (name, freed) = (&args.name, removed.freed.human());
    if args.dry_run {
        app.console.info(&format!("would remove {name}, {freed}"));
    } else {
        app.console.info(&format!("{name} is removed; {freed} are free"));
    }
    if removed.was_current {
        app.console
            .info("it was the current home of a sandbox that is gone; the next run there makes a new one");
    }
    Ok(Exit::SUCCESS)
}

//! `sandbox remove`: delete a sandbox by name.

use clap::Args;
use sandbox_model::SandboxName;

use super::CommandResult;
use crate::app::App;
use crate::exit::Exit;

/// Remove a sandbox; its record and its home volume stay, and the next run makes it again
#[derive(Debug, Clone, Args)]
#[command(
    visible_alias = "rm",
    after_help = "\
Examples:
  agents-sandbox sandbox remove my-repo-4chyvv5c1qh507-opencode
  agents-sandbox sandbox remove --force NAME      stop it first if it runs"
)]
pub struct RemoveArgs {
    /// Its name, as `agents-sandbox list` shows it
    #[arg(value_name = "NAME")]
    pub name: SandboxName,

    /// Stop it first if it is running
    #[arg(long)]
    pub force: bool,
}

pub fn run(app: &App, args: &RemoveArgs) -> CommandResult {
    let removed = sandbox_lifecycle::remove(&app.context()?, &args.name, args.force)?;
    let stopped = if removed.was_running { "stopped and removed" } else { "removed" };
    app.console.info(&format!("{} is {stopped}; its home volume stays", args.name));
    Ok(Exit::SUCCESS)
}

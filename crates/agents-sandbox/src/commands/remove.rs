//! `sandbox remove`: delete a sandbox by name.

use clap::Args;
use sandbox_lifecycle::LifecycleError;
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
    #[arg(long, short = 'f')]
    pub force: bool,

    /// Say what would be done, and do nothing
    #[arg(long, short = 'n')]
    pub dry_run: bool,
}

pub fn run(app: &App, args: &RemoveArgs) -> CommandResult {
    let context = app.context()?;
    if args.dry_run {
        let info = context.runtime.inspect(&args.name)?;
        let info = info.ok_or_else(|| LifecycleError::NoSuchSandbox(args.name.clone()))?;
        let deed = match (info.status.is_at_rest(), args.force) {
            (true, _) => "remove",
            (false, true) => "stop and remove",
            (false, false) => return Err(LifecycleError::Running(args.name.clone()).into()),
        };
        app.console.info(&format!("would {deed} {}; its home volume stays", args.name));
        return Ok(Exit::SUCCESS);
    }
    let removed = sandbox_lifecycle::remove(&context, &args.name, args.force)?;
    let stopped = if removed.was_running { "stopped and removed" } else { "removed" };
    app.console.info(&format!("{} is {stopped}; its home volume stays", args.name));
    Ok(Exit::SUCCESS)
}

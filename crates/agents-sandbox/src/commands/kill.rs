//! `kill`: power the project's sandbox off.

use clap::Args;

use super::stop::EndArgs;
use super::{CommandResult, neighbours};
use crate::app::App;
use crate::error::POWER_OFF;
use crate::exit::Exit;

/// Power the project's sandbox off at once
///
/// Nothing inside gets the chance to save its work, and its disks are left as a power cut leaves them.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  agents-sandbox kill                  when `agents-sandbox stop` does not end
  agents-sandbox kill NAME             any sandbox, as `agents-sandbox list` names it
  agents-sandbox kill -f               also remove the sandbox and its record; the home volume stays")]
pub struct KillArgs {
    #[command(flatten)]
    pub end: EndArgs,
}

pub fn run(app: &App, args: &KillArgs) -> CommandResult {
    end(app, args).map_err(|error| error.without_hint(POWER_OFF))
}

fn end(app: &App, args: &KillArgs) -> CommandResult {
    let target = args.end.target(app)?;
    if args.end.dry_run {
        return args.end.preview(app, &target, "kill", "power off");
    }
    let context = app.context()?;
    let name = sandbox_lifecycle::sandbox_name(&context, &target)?;
    let ended = sandbox_lifecycle::kill(&context, &target, args.end.force)?;
    EndArgs::report(app, &name, ended, "powered off");
    if !ended.existed {
        neighbours::tell(app, &context, &target, "kill");
    }
    Ok(Exit::SUCCESS)
}

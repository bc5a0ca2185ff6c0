//! `sandbox remove`: delete the project's sandbox, or another by its name.

use clap::Args;
use sandbox_lifecycle::LifecycleError;
use sandbox_model::{ByteSize, SandboxName};

use super::CommandResult;
use super::args::AgentArg;
use crate::app::App;
use crate::exit::Exit;
use crate::settings;

/// Remove a sandbox; its record and its home volume stay, and the next run makes it again
#[derive(Debug, Clone, Args)]
#[command(
    visible_alias = "rm",
    after_help = "\
Examples:
  agents-sandbox sandbox remove              the project's
  agents-sandbox sandbox remove --force      stop it first if it runs
  agents-sandbox sandbox remove my-repo-4chyvv5c1qh507-opencode"
)]
pub struct RemoveArgs {
    /// Stop it first if it is running
    #[arg(long, short = 'f')]
    pub force: bool,

    /// Say what would be done, and do nothing
    #[arg(long, short = 'n')]
    pub dry_run: bool,

    #[command(flatten)]
    pub agent: AgentArg,

    /// Another sandbox than the project's, as `agents-sandbox list` names it
    #[arg(value_name = "NAME", conflicts_with = "agent")]
    pub name: Option<SandboxName>,
}

pub fn run(app: &App, args: &RemoveArgs) -> CommandResult {
    let context = app.context()?;
    let name = match &args.name {
        Some(name) => name.clone(),
        None => sandbox_lifecycle::sandbox_name(&context, &settings::target_to_remove(app, &args.agent)?)?,
    };
    if args.dry_run {
        let info = context.runtime.inspect(&name)?;
        let info = info.ok_or_else(|| LifecycleError::NoSuchSandbox(name.clone()))?;
        let deed = match (info.status.is_at_rest(), args.force) {
            (true, _) => "remove",
            (false, true) => "stop and remove",
            (false, false) => return Err(LifecycleError::Running(name.clone()).into()),
        };
        app.console.info(&format!("would {deed} {name}{}; its home volume stays", lost(info.saved_memory)));
        return Ok(Exit::SUCCESS);
    }
    let removed = sandbox_lifecycle::remove(&context, &name, args.force)?;
    let stopped = if removed.was_running { "stopped and removed" } else { "removed" };
    app.console.info(&format!("{name} is {stopped}{}; its home volume stays", lost(removed.forgotten)));
    Ok(Exit::SUCCESS)
}

/// What goes with a sandbox that sleeps.
pub fn lost(memory: Option<ByteSize>) -> String {
    memory.map_or_else(String::new, |size| {
        format!(", with its saved memory ({}) and the programs that were to go on from it", size.human())
    })
}

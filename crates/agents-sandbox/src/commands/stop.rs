//! `stop`: end the project's sandbox gracefully.

use clap::Args;
use sandbox_lifecycle::{Ended, LifecycleError, Target};
use sandbox_model::SandboxName;

use super::args::AgentArg;
use super::remove::lost;
use super::{CommandResult, neighbours};
use crate::app::App;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::{project, settings};

/// Stop the project's sandbox; the next run goes on where it was
///
/// Its memory is saved where the setting auto-stop is `sleep` and the runtime can: the next run finds every
/// program as it was.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  agents-sandbox stop                  end it gracefully; its disk and its home stay
  agents-sandbox stop --cold           end every program in it, save no memory
  agents-sandbox stop --agent pi       the sandbox of another agent
  agents-sandbox stop NAME             any sandbox, as `agents-sandbox list` names it
  agents-sandbox stop -f               also remove the sandbox and its record; the home volume stays")]
pub struct StopArgs {
    /// End every program in it instead of saving its memory
    #[arg(long)]
    pub cold: bool,

    #[command(flatten)]
    pub end: EndArgs,
}

/// What `stop` and `kill` have in common.
#[derive(Debug, Clone, Args)]
pub struct EndArgs {
    /// Also remove the sandbox and its record; the home volume stays
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

impl EndArgs {
    /// A name that was typed must be that of a sandbox; a project may have none.
    pub fn target(&self, app: &App) -> Result<Target, CommandError> {
        let Some(name) = &self.name else {
            return if self.force {
                settings::target_to_remove(app, &self.agent)
            } else {
                settings::target(app, &self.agent)
            };
        };
        let context = app.context()?;
        if !context.runtime.has(name)? {
            return Err(LifecycleError::NoSuchSandbox(name.clone()).into());
        }
        project::target_of(&context, name)
    }

    /// Tells what became of it: `done` is `stopped` or `powered off`.
    pub fn report(app: &App, name: &SandboxName, ended: Ended, done: &str) {
        let text = match ended {
            Ended { existed: false, .. } => format!("there is no sandbox {name}"),
            Ended { was_running: false, removed: true, forgotten, .. } => {
                format!("{name} was not running and is removed{}", lost(forgotten))
            }
            Ended { crashed: true, removed: false, .. } => return crashed(app, name, ended),
            Ended { forgotten: Some(size), .. } => {
                format!("{name} is not running any more; its saved memory ({}) is dropped", size.human())
            }
            Ended { was_running: false, .. } => format!("{name} is not running"),
            Ended { asleep: true, .. } => format!("{name} is {done}, its memory is saved"),
            Ended { removed: true, .. } => format!("{name} is {done} and removed"),
            Ended { .. } => format!("{name} is {done}"),
        };
        app.console.info(&text);
        if ended.forced {
            app.console.warning(&format!("{name} did not end by itself and was powered off"));
        }
    }

    /// Says what would be done: `deed` is `stop` or `power off`, and `verb` what was typed for it.
    pub fn preview(&self, app: &App, target: &Target, verb: &str, deed: &str) -> CommandResult {
        let context = app.context()?;
        let name = sandbox_lifecycle::sandbox_name(&context, target)?;
        let text = match context.runtime.inspect(&name)? {
            None => format!("there is no sandbox {name}"),
            Some(info) if info.status.is_at_rest() && self.force => {
                format!("would remove {name}{}", lost(info.saved_memory))
            }
            Some(info) if info.status.is_at_rest() => format!("{name} is not running"),
            Some(_) if self.force => format!("would {deed} and remove {name}"),
            Some(_) => format!("would {deed} {name}"),
        };
        app.console.info(&text);
        if !context.runtime.has(&name)? {
            neighbours::tell(app, &context, target, verb);
        }
        Ok(Exit::SUCCESS)
    }
}

/// It was not we who ended it.
fn crashed(app: &App, name: &SandboxName, ended: Ended) {
    let when = if ended.was_running { "ended by itself while it was stopped" } else { "had ended before" };
    app.console.warning(&format!("{name} {when}, and not in good order (crashed)"));
    app.console
        .info(&format!("`agents-sandbox logs {name}` shows how it ended; the next run starts it again"));
}

pub fn run(app: &App, args: &StopArgs) -> CommandResult {
    let target = args.end.target(app)?;
    if args.end.dry_run {
        return args.end.preview(app, &target, "stop", "stop");
    }
    let context = app.context()?;
    let name = sandbox_lifecycle::sandbox_name(&context, &target)?;
    // What is about to be removed needs no memory.
    let ended = if args.cold || args.end.force {
        sandbox_lifecycle::stop(&context, &target, args.end.force)?
    } else {
        sandbox_lifecycle::rest(&context, &target)?
    };
    EndArgs::report(app, &name, ended, "stopped");
    if !ended.existed {
        neighbours::tell(app, &context, &target, "stop");
    }
    Ok(Exit::SUCCESS)
}

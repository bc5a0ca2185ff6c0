//! `shell`: prepare the sandbox and open a login shell in it.

use clap::Args;

use super::args::PrepareArgs;
use super::{CommandResult, attend, network, prepare};
use crate::agent_version;
use crate::app::App;
use crate::approval;
use crate::settings::Meant;
use crate::terminal::{describe_terminal, terminal_size};
use crate::upgrade;

/// Open a login shell in the project's sandbox
#[derive(Debug, Clone, Args)]
#[command(
    visible_alias = "sh",
    after_help = "\
Examples:
  agents-sandbox shell                 a shell where you are, as the agent's user
  agents-sandbox shell --root          the same as root: install something, look at a log
  agents-sandbox shell --new           another one beside the one that you left

Ctrl-] leaves a shell, and so does closing the window: it goes on, and the next `shell` is back in it."
)]
pub struct ShellArgs {
    /// As root instead of the agent's user
    #[arg(long)]
    pub root: bool,

    /// Begin another shell, also where one waits that nobody is attached to
    #[arg(long)]
    pub new: bool,

    #[command(flatten)]
    pub prepare: PrepareArgs,
}

pub fn run(app: &App, args: &ShellArgs) -> CommandResult {
    let meant = Meant::resolve(app, args.prepare.flags())?;
    let reviewed = approval::review(app, &meant, args.prepare.purpose())?;
    let mut request = meant.up_request(app, &args.prepare, "shell", reviewed)?;
    if let Some(extent) = args.prepare.rehearses() {
        return prepare::dry_run(app, &meant, &request, "", extent);
    }
    if let Some(exit) = upgrade::look(app, &meant.settings) {
        return Ok(exit);
    }
    let context = app.context_for(&meant.settings)?;
    let interruptible = prepare::interruptible(&context, request.target())?;
    prepare::begin(app, &context, &meant, &request)?;
    agent_version::offer(&context, &meant, &mut request)?;
    let first = prepare::introduce(app, &context, &request, &args.prepare.agent)?;
    let up = prepare::up(&context, &mut request)?;
    agent_version::ask(&context, &meant, &up);
    let streams = prepare::streams();
    prepare::provision(&context, &request, &up, streams)?;
    let tty = streams.tty.then(terminal_size).flatten();
    let mut command = sandbox_lifecycle::shell_command(&up.guest_dir, args.root, tty);
    describe_terminal(&mut command, &request.settings.env);
    let again = if args.root { "agents-sandbox shell --root" } else { "agents-sandbox shell" };
    let again = args.prepare.agent.after(again);
    let what = attend::choose(&context, &up, &command, args.new, (&again, &args.prepare.agent))?;
    let exit = attend::attend(&context, &request, &up, &what, streams, &again, interruptible);
    network::summary(app, &context, &request, &args.prepare.agent, first);
    exit
}

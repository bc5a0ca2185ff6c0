//! `run`: prepare the sandbox and run the agent. Also what the program does without a command.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, ValueEnum};
use sandbox_lifecycle::Stage;

use super::args::PrepareArgs;
use super::{CommandResult, prepare};
use crate::app::App;
use crate::approval;
use crate::error::CommandError;
use crate::project;
use crate::settings::Meant;
use crate::terminal::terminal_size;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum NotifyMode {
    On,
    Off,
    Desktop,
    Audio,
}

/// Run the agent on the project in this folder (the default command)
///
/// Makes what is missing (the image, the home, the sandbox), starts it, and puts the agent on this
/// terminal. The sandbox goes on after you leave for as long as the agent works, and then stops by itself.
#[derive(Debug, Clone, Default, Args)]
#[command(after_help = "\
Examples:
  agents-sandbox run                            the agent, in the folder where you are
  agents-sandbox run -- run \"fix the test\"     words for the agent, here for one task
  agents-sandbox run --network public -m 8G     let it reach the internet; more memory
  agents-sandbox run --dry-run                  say what would be done")]
pub struct RunArgs {
    /// Words for the agent, passed on as they are; put what starts with a dash after `--`
    #[arg(value_name = "AGENT_ARG", num_args = 0..)]
    pub agent_args: Vec<OsString>,

    #[command(flatten)]
    pub prepare: PrepareArgs,

    /// Work in a git worktree inside the sandbox, made from BASE if it is new
    #[arg(long, short = 'w', value_name = "NAME[:BASE]")]
    pub worktree: Option<String>,

    /// Start the agent's server and wait, without a client
    #[arg(long, short = 's')]
    pub serve_only: bool,

    /// Tell me when the agent waits for me
    #[arg(
        long,
        value_name = "MODE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "on"
    )]
    pub notify: Option<NotifyMode>,
}

pub fn run(app: &App, args: &RunArgs) -> CommandResult {
    refuse_what_is_missing(args)?;
    let meant = Meant::resolve(app, args.prepare.flags())?;
    let reviewed = approval::review(app, &meant, args.prepare.purpose())?;
    let request = meant.up_request(&args.prepare, "run", &reviewed)?;
    if let Some(extent) = args.prepare.rehearses() {
        return prepare::dry_run(app, &meant, &request, &project::shown(&args.agent_args), extent);
    }
    let context = app.context_for(&meant.settings)?;
    let interruptible = prepare::interruptible(&context, request.target())?;
    prepare::begin(app, &context, &meant, &request)?;
    let up = sandbox_lifecycle::up(&context, &request)?;
    Stage::Provisioning.run(&app.console, || sandbox_lifecycle::provision(&context, &request, &up))?;
    let daemon =
        Stage::Daemon.run(&app.console, || sandbox_lifecycle::ensure_daemon(&context, &request, &up))?;
    Stage::Branch.report(&app.console, "the checkout itself", Duration::ZERO);
    let streams = prepare::streams();
    let tty = streams.tty.then(terminal_size).flatten();
    let command = sandbox_lifecycle::agent_command(&up, daemon.as_ref(), &args.agent_args, tty);
    let exit =
        Stage::Agent.run(&app.console, || prepare::attach(&context, &up, &command, streams, interruptible));
    Stage::Cleanup.run(&app.console, || {
        drop(up);
        exit
    })
}

/// Flags that are understood but whose effect is not built yet: silence would be a lie.
fn refuse_what_is_missing(args: &RunArgs) -> Result<(), CommandError> {
    let missing = [
        ("--worktree", args.worktree.is_some()),
        ("--serve-only", args.serve_only),
        ("--notify", !matches!(args.notify, None | Some(NotifyMode::Off))),
    ];
    if let Some((flag, _)) = missing.into_iter().find(|(_, typed)| *typed) {
        return Err(CommandError::new(format!("{flag} is not available in this version")));
    }
    Ok(())
}

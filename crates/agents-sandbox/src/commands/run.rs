//! `run`: prepare the sandbox and run the agent. Also what the program does without a command.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use sandbox_config::Flags;
use sandbox_lifecycle::{
    AgentProfile, Context, Daemon, LifecycleError, Stage, Up, UpRequest, WorktreeWish, profile,
};

use super::args::PrepareArgs;
use super::attend::What;
use super::{CommandResult, attend, network, prepare, serve};
use crate::agent_version;
use crate::agents_with::agents_with;
use crate::app::App;
use crate::approval;
use crate::error::CommandError;
use crate::notify;
use crate::project;
use crate::settings::Meant;
use crate::terminal::{Streams, describe_terminal, terminal_size};
use crate::upgrade;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum NotifyMode {
    On,
    Off,
    Desktop,
    Audio,
    Bell,
    Sound,
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
  agents-sandbox run -w fix-login:main          a worktree of its own; the checkout stays as it is
  agents-sandbox run --serve-only               an address for the agent's desktop or another client
  agents-sandbox run --keep 2h                  stay up that long, for what runs inside
  agents-sandbox run --new                      another beside the one that you left
  agents-sandbox run --dry-run                  say what would be done

Ctrl-] leaves an agent, and so does closing the window: it goes on, and the next `run` is back in it.")]
pub struct RunArgs {
    /// Words for the agent, passed on as they are; put what starts with a dash after `--`
    #[arg(value_name = "AGENT_ARG", num_args = 0..)]
    pub agent_args: Vec<OsString>,

    #[command(flatten)]
    pub prepare: PrepareArgs,

    /// Work in a git worktree inside the sandbox, made from BASE if it is new
    #[arg(long, short = 'w', value_name = "NAME[:BASE]")]
    pub worktree: Option<WorktreeWish>,

    /// Begin another, also where one waits that nobody is attached to
    #[arg(long)]
    pub new: bool,

    /// Open the agent's server to this computer's other clients, and wait until Ctrl-D or Ctrl-C
    #[arg(long, short = 's')]
    pub serve_only: bool,

    /// Tell me when the agent waits for me, is done, or has failed, until I leave
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
    let notify = args.notify.and_then(|mode| mode.to_possible_value()).map(|mode| mode.get_name().into());
    let meant = Meant::resolve(app, Flags { notify, ..args.prepare.flags() })?;
    let profile = profile(meant.settings.agent.value)?;
    refuse_without_server(args, profile)?;
    let wishes = notify::Wishes::of(&meant.settings, profile, |remark| app.console.warning(remark))?;
    let reviewed = approval::review(app, &meant, args.prepare.purpose())?;
    let mut request = meant.up_request(app, &args.prepare, "run", reviewed)?;
    if let Some(extent) = args.prepare.rehearses() {
        return prepare::dry_run(app, &meant, &request, &project::shown(&args.agent_args), extent);
    }
    if let Some(exit) = upgrade::look(app, &meant.settings) {
        return Ok(exit);
    }
    let context = app.context_for(&meant.settings)?;
    let interruptible = prepare::interruptible(&context, request.target())?;
    prepare::begin(app, &context, &meant, &request)?;
    agent_version::offer(&context, &meant, &mut request)?;
    let first = prepare::introduce(app, &context, &request, &args.prepare.agent)?;
    let mut up = prepare::up(&context, &mut request)?;
    // The work of a server goes on without its client, also where a client is not kept.
    let streams = Streams { detach: profile.daemon.is_some(), ..prepare::streams() };
    agent_version::ask(&context, &meant, &up);
    Stage::Provisioning.run(&app.console, || prepare::provision(&context, &request, &up, streams))?;
    let another = args.new || args.serve_only || args.worktree.is_some() || !args.agent_args.is_empty();
    let back = streams.tty && !another;
    let (daemon, joins) = Stage::Daemon.run(&app.console, || find_server(&context, &request, &up, back))?;
    if let (Some(wish), Some(daemon)) = (&args.worktree, &daemon) {
        let begun = Instant::now();
        let opened = sandbox_lifecycle::open_worktree(&context, &up, daemon, wish)?;
        let word = if opened.created { "made" } else { "there already" };
        let what = format!("worktree {word}: {}", opened.worktree.directory);
        Stage::Branch.report(&app.console, &what, begun.elapsed());
        up.guest_dir = opened.worktree.directory;
    } else {
        Stage::Branch.report(&app.console, "the checkout itself", Duration::ZERO);
    }
    if let (Some(daemon), false) = (&daemon, joins) {
        sandbox_lifecycle::warm_up(&context, &up, daemon);
    }
    if let (Some(wishes), Some(daemon)) = (wishes, &daemon) {
        let target = request.target();
        let files = context.layout.sandbox_state(&target.checkout, target.agent);
        let project = request.project.root.file_name().unwrap_or_default().to_string_lossy();
        notify::start(&context, &files, &up, daemon, profile, &project, wishes)?;
    }
    if let (true, Some(daemon)) = (args.serve_only, &daemon) {
        return serve::serve(app, &context, &up, daemon, profile, interruptible);
    }
    let tty = streams.tty.then(terminal_size).flatten();
    let command_of = |daemon: Option<&Daemon>| {
        let mut command = sandbox_lifecycle::agent_command(&up, daemon, &args.agent_args, tty);
        describe_terminal(&mut command, &request.settings.env);
        command
    };
    let command = command_of(daemon.as_ref());
    if let Some(daemon) = &daemon {
        sandbox_lifecycle::end_lost_clients(&context, &up.name, daemon)?;
    }
    let again = args.prepare.agent.after("agents-sandbox run");
    let begun;
    let mut what = attend::choose(&context, &up, &command, args.new, (&again, &args.prepare.agent))?;
    if begins_after_all(joins, &what) {
        begun = command_of(sandbox_lifecycle::ensure_daemon(&context, &request, &up)?.as_ref());
        what = What::Begin(&begun);
    }
    let exit = Stage::Agent
        .run(&app.console, || attend::attend(&context, &request, &up, &what, streams, &again, interruptible));
    network::summary(app, &context, &request, &args.prepare.agent, first);
    Stage::Cleanup.run(&app.console, || {
        drop(up);
        exit
    })
}

/// The agent's server, and whether it has a client that the user may be `back` in, whose screen is there already.
fn find_server(
    context: &Context<'_>,
    request: &UpRequest,
    up: &Up,
    back: bool,
) -> Result<(Option<Daemon>, bool), LifecycleError> {
    if back && let Some(daemon) = sandbox_lifecycle::daemon_of_kept_client(context, request, up)? {
        return Ok((Some(daemon), true));
    }
    Ok((sandbox_lifecycle::ensure_daemon(context, request, up)?, false))
}

/// Whether the client that was to be joined is another terminal's by now, or has ended. A new one shows its screen only
/// once the server answers.
fn begins_after_all(joins: bool, what: &What<'_>) -> bool {
    joins && matches!(what, What::Begin(_))
}

/// What only a server can do.
fn refuse_without_server(args: &RunArgs, profile: &AgentProfile) -> Result<(), CommandError> {
    let flags = [("--worktree", args.worktree.is_some()), ("--serve-only", args.serve_only)];
    match flags.into_iter().find(|(_, typed)| *typed && profile.daemon.is_none()) {
        Some((flag, _)) => Err(CommandError::new(format!(
            "{flag} needs an agent with a server, and {} has none",
            profile.name
        ))
        .hint(format!("{} has one", agents_with(|_| true)))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use sandbox_model::{ExecSpec, TermSize};

    use super::*;

    #[test]
    fn a_server_that_was_not_asked_is_asked_before_a_client_begins() {
        let command = ExecSpec::new(["opencode"]);
        let (begins, joined) = (What::Begin(&command), What::Join(1, TermSize { cols: 80, rows: 24 }));
        assert!(begins_after_all(true, &begins));
        assert!(!begins_after_all(true, &joined));
        assert!(!begins_after_all(false, &begins), "it was asked already");
    }
}

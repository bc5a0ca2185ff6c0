//! `exec`: run one command in the project's sandbox.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::Path;

use clap::Args;

use super::args::{AgentArg, PrepareArgs};
use super::attend::{self, What};
use super::{CommandResult, network, prepare};
use crate::app::App;
use crate::approval::{self, Purpose};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::settings::Meant;
use crate::terminal::{Streams, describe_terminal, terminal_size};

const NOT_THERE: Exit = Exit(127);

/// Run one command in the project's sandbox
///
/// The sandbox is started if it is not running. The command's words arrive unchanged, its output and its
/// exit code come back. Input is passed on only with -i.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  agents-sandbox exec -- git status              what the agent has changed
  agents-sandbox exec -it -- python3             an interactive program: input and a terminal
  agents-sandbox exec --root -- ss -tlnp         which programs listen inside: root sees all
  cat all.json | agents-sandbox exec -i -- jq .  feed it from a pipe
  agents-sandbox exec -w /tmp -e LANG=C -- env")]
pub struct ExecArgs {
    /// Pass input on to the command
    #[arg(long, short = 'i')]
    pub interactive: bool,

    /// Run the command on a terminal
    #[arg(long, short = 't')]
    pub tty: bool,

    /// As root instead of the agent's user
    #[arg(long)]
    pub root: bool,

    /// Folder inside the sandbox [default: the one that matches where you are]
    #[arg(long, short = 'w', value_name = "DIR")]
    pub workdir: Option<String>,

    /// Set a variable for the command; KEY alone takes its value from here
    #[arg(long, short = 'e', value_name = "KEY=VALUE")]
    pub env: Vec<String>,

    #[command(flatten)]
    pub agent: AgentArg,

    /// The command and its words
    #[arg(value_name = "COMMAND", required = true, num_args = 1.., trailing_var_arg = true)]
    pub command: Vec<OsString>,
}

pub fn run(app: &App, args: &ExecArgs) -> CommandResult {
    if args.tty && !std::io::stdin().is_terminal() {
        return Err(CommandError::usage("-t needs a terminal on stdin, and stdin is none")
            .hint("leave -t out: pipes work without it"));
    }
    let env = args.env.iter().filter_map(|text| variable(text).transpose()).collect::<Result<_, _>>()?;
    let prepare_args = PrepareArgs { agent: args.agent.clone(), ..PrepareArgs::default() };
    let meant = Meant::resolve(app, prepare_args.flags())?;
    let reviewed = approval::review(app, &meant, Purpose::Use)?;
    let mut request = meant.up_request(app, &prepare_args, "exec", reviewed)?;
    let context = app.context_for(&meant.settings)?;
    let interruptible = prepare::interruptible(&context, request.target())?;
    prepare::tell_what_is_written_anyway(app, &context, &request)?;
    let first = prepare::is_new(&context, &request)?;
    let up = prepare::up(&context, &mut request)?;
    let streams = Streams { tty: args.tty, stdin: args.interactive, detach: false };
    prepare::provision(&context, &request, &up, streams)?;
    let tty = args.tty.then(terminal_size).flatten();
    let dir = match &args.workdir {
        // A relative one is meant from where the command was typed; an absolute one replaces that.
        Some(dir) => Path::new(&up.guest_dir).join(dir).to_string_lossy().into_owned(),
        None => up.guest_dir.clone(),
    };
    let mut command = sandbox_lifecycle::exec_command(&dir, &args.command, args.root, tty);
    let words: Vec<(String, String)> = env;
    command.env.extend(words);
    describe_terminal(&mut command, &request.settings.env);
    let what = What::Begin(&command);
    let again = args.agent.after("agents-sandbox exec");
    let exit = attend::attend(&context, &request, &up, &what, streams, &again, interruptible)
        .map_err(|error| say_how_to_add(error, args.command.first()));
    if first {
        network::summary(app, &context, &request, &args.agent, first);
    }
    exit
}

/// What a shell reports as 127 is a program that is not there. A path is no package's name.
fn say_how_to_add(error: CommandError, program: Option<&OsString>) -> CommandError {
    let name = program.and_then(|program| program.to_str()).filter(|name| !name.contains('/'));
    if error.exit != NOT_THERE || name.is_none() {
        return error;
    }
    error
        .hint(
            "the image lacks it; add it in the project's `.agents-sandbox/Dockerfile`: `FROM agents-sandbox/runner-base`, \
             then `RUN apt-get update && apt-get install -y PACKAGE`",
        )
        .hint("`agents-sandbox build` makes that image; after `agents-sandbox stop --cold`, the next run has it")
}

/// `KEY=VALUE`; `KEY` alone takes the value from our own environment, and is dropped where there is none.
fn variable(text: &str) -> Result<Option<(String, String)>, CommandError> {
    let (key, value) = match text.split_once('=') {
        Some((key, value)) => (key, Some(value.to_string())),
        None => (text, std::env::var(text).ok()),
    };
    if key.is_empty() || key.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(CommandError::usage(format!("`{text}` is not a variable; write KEY=VALUE")));
    }
    Ok(value.map(|value| (key.to_string(), value)))
}

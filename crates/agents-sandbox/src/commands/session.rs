//! The `session` group: agents and shells that outlive their terminal.

use clap::{Args, Subcommand};
use sandbox_lifecycle::Reporter;
use sandbox_model::{ExitStatus, KeptSession, SessionEnd};
use sandbox_state::Stamp;
use serde_json::{Value, json};

use super::args::{AgentArg, PrepareArgs};
use super::attend::{self, What};
use super::list::Format;
use super::{CommandResult, prepare};
use crate::app::App;
use crate::approval::{self, Purpose};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::report::{Column, Table, Tone};
use crate::settings::{self, Meant};
use crate::terminal::terminal_size;

/// Agents and shells that outlive their terminal
///
/// What `run` and `shell` put on a terminal goes on when that is closed or left with Ctrl-]. The next `run` or
/// `shell` is back in it.
#[derive(Debug, Subcommand)]
#[command(visible_alias = "sessions")]
pub enum SessionCommand {
    List(ListArgs),
    Attach(AttachArgs),
    End(EndArgs),
}

/// List the sessions in the project's sandbox
#[derive(Debug, Clone, Args)]
#[command(visible_alias = "ls")]
pub struct ListArgs {
    #[command(flatten)]
    pub agent: AgentArg,

    /// Another form than the table
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<Format>,
}

/// Put a session on this terminal, also one that others are attached to
///
/// Each sees everything and may type. The session is as large as the smallest of their terminals.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  agents-sandbox session attach 2       Ctrl-] leaves it again
  agents-sandbox session attach 3       one that has ended shows its last screen, and gives its exit code")]
pub struct AttachArgs {
    #[command(flatten)]
    pub agent: AgentArg,

    /// Its number in `session list`
    #[arg(value_parser = super::values::session, allow_hyphen_values = true)]
    pub id: u32,
}

/// End a session: hang its command up, or forget one that has ended
///
/// Where the command, or the program in the foreground, has not left after 3 seconds, every program on the terminal
/// gets TERM, and after 3 more KILL.
#[derive(Debug, Clone, Args)]
pub struct EndArgs {
    #[command(flatten)]
    pub agent: AgentArg,

    /// Its number in `session list`
    #[arg(value_parser = super::values::session, allow_hyphen_values = true)]
    pub id: u32,
}

pub fn run(app: &App, command: &SessionCommand) -> CommandResult {
    match command {
        SessionCommand::List(args) => list(app, args),
        SessionCommand::Attach(args) => attach(app, args),
        SessionCommand::End(args) => end(app, args),
    }
}

fn list(app: &App, args: &ListArgs) -> CommandResult {
    let target = settings::target(app, &args.agent)?;
    let context = app.context()?;
    let name = sandbox_lifecycle::sandbox_name(&context, &target)?;
    let info = context.runtime.inspect(&name)?;
    let runs = info.as_ref().is_some_and(|info| !info.status.is_at_rest());
    let sessions = if runs { context.runtime.sessions(&name)? } else { Vec::new() };
    if args.format.is_some() {
        app.out.json(&sessions.iter().map(entry).collect::<Vec<_>>())?;
        return Ok(Exit::SUCCESS);
    }
    if sessions.is_empty() {
        let shell = args.agent.after("agents-sandbox shell");
        app.console.info(&match info {
            None => format!("there is no sandbox {name}"),
            Some(info) if info.saved_memory.is_some() => {
                format!("{name} sleeps, and its sessions with it; `{shell}` or `run` wakes it")
            }
            Some(_) if !runs => format!("{name} is not running"),
            Some(_) => format!("no sessions in {name}; `{shell}` begins one"),
        });
        return Ok(Exit::SUCCESS);
    }
    let columns = [("ID", true), ("KIND", true), ("STATUS", true), ("COMMAND", false), ("BEGUN", true)];
    let mut table = Table::new(&columns.map(|(heading, whole)| Column { heading, whole }));
    for session in sessions {
        let (id, begun) = (session.id.to_string(), Stamp::for_table(session.created));
        table.row(
            [id, session.keep.kind.clone(), status(&session), session.keep.title, begun]
                .map(|cell| (cell, Tone::Plain)),
        );
    }
    app.out.line(&table.render())?;
    Ok(Exit::SUCCESS)
}

fn status(session: &KeptSession) -> String {
    match (session.ended, session.clients) {
        (Some(status), _) => format!("ended ({})", status.shell_code()),
        (None, 0) => "detached".into(),
        (None, 1) => "attached".into(),
        (None, many) => format!("attached ({many})"),
    }
}

fn entry(session: &KeptSession) -> Value {
    let status = match (session.ended, session.clients) {
        (Some(_), _) => "ended",
        (None, 0) => "detached",
        (None, _) => "attached",
    };
    json!({
        "id": session.id,
        "kind": session.keep.kind,
        "status": status,
        "command": session.keep.title,
        "directory": session.cwd,
        "user": session.user,
        "created": Stamp::for_json(session.created),
        "columns": session.size.cols,
        "rows": session.size.rows,
        "clients": session.clients,
        "exit_code": session.ended.map(ExitStatus::shell_code),
    })
}

fn attach(app: &App, args: &AttachArgs) -> CommandResult {
    let streams = prepare::streams();
    let Some(size) = streams.tty.then(terminal_size).flatten() else {
        return Err(CommandError::usage("a session needs a terminal on stdin and stdout"));
    };
    let prepare_args = PrepareArgs { agent: args.agent.clone(), ..PrepareArgs::default() };
    let meant = Meant::resolve(app, prepare_args.flags())?;
    let reviewed = approval::review(app, &meant, Purpose::Use)?;
    let mut request = meant.up_request(app, &prepare_args, "session", reviewed)?;
    let context = app.context_for(&meant.settings)?;
    let interruptible = prepare::interruptible(&context, request.target())?;
    prepare::tell_what_is_written_anyway(app, &context, &request)?;
    let up = prepare::up(&context, &mut request)?;
    let again = args.agent.after(&format!("agents-sandbox session attach {}", args.id));
    attend::attend(&context, &request, &up, &What::Join(args.id, size), streams, &again, interruptible)
}

fn end(app: &App, args: &EndArgs) -> CommandResult {
    let target = settings::target(app, &args.agent)?;
    let context = app.context()?;
    let name = sandbox_lifecycle::sandbox_name(&context, &target)?;
    let step = app.console.begin(&format!("ending session {}", args.id));
    let end = context.runtime.end_session(&name, args.id);
    drop(step);
    let how = match end? {
        SessionEnd::Over => " (its command had ended before)",
        SessionEnd::HungUp => "",
        SessionEnd::Terminated => ": what ran in it ignored the hang-up and was ended (TERM)",
        SessionEnd::Killed => ": what ran in it ignored the hang-up and TERM, and was killed",
    };
    app.console.info(&format!("session {} is ended{how}", args.id));
    Ok(Exit::SUCCESS)
}

//! A command on the user's terminal or pipes: one that begins, or one that is there already.

use std::time::{Duration, Instant};

use sandbox_lifecycle::{Context, Up, UpRequest};
use sandbox_model::{ExecSpec, ExitStatus, Keep, KeptSession, Status, TermSize};
use sandbox_runtime::ExecSession;
use sandbox_state::Stamp;

use super::CommandResult;
use super::args::AgentArg;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::report::plain;
use crate::terminal::{Ended, Interruptible, Streams, attach as attach_terminal};

/// What the terminal is connected to.
#[derive(Debug)]
pub enum What<'a> {
    Begin(&'a ExecSpec),
    Join(u32, TermSize),
}

/// How long a sandbox whose link is gone may take to come to rest.
const RESTS_WITHIN: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// What to connect to instead of beginning `command`: a session like it that nobody is attached to, unless
/// another one is wanted. Says which, and what ended unseen. `again` is the command line that was typed, for the
/// sandbox that `agent` names.
pub fn choose<'a>(
    context: &Context<'_>,
    up: &Up,
    command: &'a ExecSpec,
    another: bool,
    (again, agent): (&str, &AgentArg),
) -> Result<What<'a>, CommandError> {
    let (Some(keep), Some(size)) = (&command.keep, command.tty) else { return Ok(What::Begin(command)) };
    say_unseen(context, up, keep, agent)?;
    match sandbox_lifecycle::detached_session(context, &up.name, keep)? {
        Some(session) if !another => {
            let begun = Stamp::for_table(session.created);
            context.reporter.info(&format!(
                "back in session {}, begun {begun}; `{again} --new` begins another",
                session.id
            ));
            Ok(What::Join(session.id, size))
        }
        _ => Ok(What::Begin(command)),
    }
}

fn say_unseen(context: &Context<'_>, up: &Up, keep: &Keep, agent: &AgentArg) -> Result<(), CommandError> {
    for KeptSession { id, keep, ended, .. } in sandbox_lifecycle::unseen_ends(context, &up.name, keep)? {
        let code = ended.map_or(0, ExitStatus::shell_code);
        context.reporter.info(&format!(
            "session {id} ({}) has ended with exit code {code}; `{}` shows its last screen",
            plain(&keep.title),
            agent.after(&format!("agents-sandbox session attach {id}"))
        ));
    }
    Ok(())
}

/// Connects the user's terminal or pipes; the command's exit code becomes ours. From here on signals are the
/// command's. `again` is the command line that leads back to it.
pub fn attend(
    context: &Context<'_>,
    request: &UpRequest,
    up: &Up,
    what: &What<'_>,
    streams: Streams,
    again: &str,
    interruptible: Interruptible,
) -> CommandResult {
    let session: ExecSession = match what {
        What::Begin(command) => context.runtime.exec(&up.name, command)?,
        What::Join(session, size) => context.runtime.attach(&up.name, *session, *size)?,
    };
    drop(interruptible);
    let kept = session.session.is_some();
    let ended = attach_terminal(session, Streams { detach: streams.detach || kept, ..streams })?;
    // Whoever sent a signal does not want to wait, and the next command does it.
    if matches!(ended, Ended::Exited(_) | Ended::Detached)
        && let Err(error) = sandbox_lifecycle::rewrite_worktree_pointers(context, &request.project, up)
    {
        context.reporter.verbose(&error.to_string());
    }
    match ended {
        Ended::Exited(status) => Ok(Exit::from_shell_code(status.shell_code())),
        Ended::Signal(signal) => Ok(Exit::from_signal(u8::try_from(signal).unwrap_or(u8::MAX))),
        Ended::Detached if kept => {
            context.reporter.info(&format!("detached; it goes on; `{again}` leads back"));
            if !sleeps(context, up)? && request.keep.is_none() {
                context.reporter.info(
                    "it ends with the sandbox, which stops soon after its last client; `--keep 2h` holds it",
                );
            }
            Ok(Exit::SUCCESS)
        }
        Ended::Detached => {
            context.reporter.info("detached; what the agent is at goes on in the sandbox");
            Ok(Exit::SUCCESS)
        }
        Ended::ReaderGone => Ok(Exit::from_signal(13)),
        Ended::Lost(_) if kept && fell_asleep(context, up)? => {
            context.reporter.info(&format!("the sandbox fell asleep; `{again}` goes on where it was"));
            Ok(Exit::SUCCESS)
        }
        Ended::Lost(error) => Err(error.into()),
    }
}

/// Whether what runs in the sandbox goes on after its next stop.
fn sleeps(context: &Context<'_>, up: &Up) -> Result<bool, CommandError> {
    let may = context.runtime.inspect(&up.name)?.is_some_and(|info| info.spec.sleep);
    Ok(may && context.runtime.capabilities_for(&up.name)?.sleep)
}

/// Waits until a sandbox that went away has come to rest; whether its memory is saved.
fn fell_asleep(context: &Context<'_>, up: &Up) -> Result<bool, CommandError> {
    let deadline = Instant::now() + RESTS_WITHIN;
    loop {
        match context.runtime.inspect(&up.name)? {
            Some(info) if info.status == Status::Stopped => return Ok(info.saved_memory.is_some()),
            Some(info) if !info.status.is_at_rest() && Instant::now() < deadline => {
                std::thread::sleep(LOOK_AGAIN);
            }
            _ => return Ok(false),
        }
    }
}

//! What `run`, `shell` and `exec` have in common.

use std::io::IsTerminal;
use std::sync::Arc;

use sandbox_lifecycle::{Context, Target, Up, UpRequest};
use sandbox_model::ExecSpec;
use sandbox_runtime::ExecSession;

use super::CommandResult;
use crate::app::App;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::settings::Meant;
use crate::terminal::{self, Ended, Interruptible, Streams, attach as attach_terminal};

/// A terminal when there is one on both sides. Otherwise pipes, and no input from a terminal that is only on
/// stdin: a program that reads to the end would wait for ever.
pub fn streams() -> Streams {
    let stdin = std::io::stdin().is_terminal();
    let tty = stdin && std::io::stdout().is_terminal();
    Streams { tty, stdin: tty || !stdin }
}

/// Lets Ctrl-C end what is prepared, a boot included, instead of leaving it to itself.
pub fn interruptible(context: &Context<'_>, target: Target) -> Result<Interruptible, CommandError> {
    let (layout, runtime) = (context.layout.clone(), Arc::clone(&context.runtime));
    let give_up = move || drop(sandbox_lifecycle::abandon(&layout, runtime.as_ref(), &target));
    terminal::interruptible(give_up)
        .map_err(|error| CommandError::new(format!("signals cannot be watched: {error}")))
}

/// Runs the command on the user's terminal or pipes; its exit code becomes ours. From here on signals are
/// the command's.
pub fn attach(
    context: &Context<'_>,
    up: &Up,
    command: &ExecSpec,
    streams: Streams,
    interruptible: Interruptible,
) -> CommandResult {
    let session: ExecSession = context.runtime.exec(&up.name, command)?;
    drop(interruptible);
    match attach_terminal(session, streams)? {
        Ended::Exited(status) => Ok(Exit::from_shell_code(status.shell_code())),
        Ended::Signal(signal) => Ok(Exit::from_signal(u8::try_from(signal).unwrap_or(u8::MAX))),
        Ended::ReaderGone => Ok(Exit::from_signal(13)),
        Ended::Lost(error) => Err(error.into()),
    }
}

/// Says what would be done.
pub fn dry_run(app: &App, meant: &Meant, request: &UpRequest, words: &str) -> CommandResult {
    let settings = &request.settings;
    let name = request.target().name();
    let mut lines = vec![
        format!("sandbox    {name}"),
        format!("checkout   {}", request.project.root.display()),
        format!("agent      {} {words}", request.agent).trim_end().to_string(),
        format!("machine    {} CPUs, {} memory", settings.resources.cpus, settings.resources.memory),
        format!("network    {}", settings.network.profile),
    ];
    if let Ok(context) = app.context_for(&meant.settings) {
        let status = context.runtime.inspect(&name)?.map(|info| info.status.to_string());
        lines.push(format!("status     {}", status.as_deref().unwrap_or("would be made")));
    }
    app.out.line(&lines.join("\n"))?;
    Ok(Exit::SUCCESS)
}

//! What `run`, `shell` and `exec` have in common.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Instant;

use sandbox_lifecycle::prune::{AutoPrune, auto_prune};
use sandbox_lifecycle::{Context, Extent, Stage, Target, Up, UpRequest, rehearse};
use sandbox_model::{ExecSpec, Status};
use sandbox_runtime::ExecSession;

use super::CommandResult;
use crate::app::App;
use crate::doctor::lacking;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::report::plain;
use crate::settings::{self, Meant};
use crate::terminal::{self, Ended, Interruptible, Streams, attach as attach_terminal};
use crate::wiring;

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

/// Says what would be done, having done as much of it as `extent` says.
pub fn dry_run(app: &App, meant: &Meant, request: &UpRequest, words: &str, extent: Extent) -> CommandResult {
    let settings = &request.settings;
    let context = app.context_for(&meant.settings)?;
    let rehearsal = rehearse(&context, request, extent)?;
    let name = sandbox_lifecycle::sandbox_name(&context, &request.target())?;
    let image = rehearsal.image.map_or_else(|| "would be built".into(), |digest| digest.short().to_string());
    let home = rehearsal.home.map_or_else(|| "would be made".into(), |name| name.to_string());
    let status = rehearsal.status.map(|status| format!("{status}, ")).unwrap_or_default();
    let mut lines = vec![
        format!("sandbox    {name}"),
        format!("checkout   {}", request.project.root.display()),
        format!("agent      {} {words}", request.agent).trim_end().to_string(),
        format!("machine    {} CPUs, {} memory", settings.resources.cpus, settings.resources.memory),
        format!("network    {}", settings.network.profile),
        format!("image      {image}"),
        format!("home       {home}"),
        format!("status     {status}{}", rehearsal.deed),
    ];
    lines.extend(rehearsal.changes.iter().map(|change| format!("changed    {change}")));
    app.out.line(&lines.iter().map(|line| plain(line)).collect::<Vec<_>>().join("\n"))?;
    Ok(Exit::SUCCESS)
}

/// The first two steps of a run: what nobody uses any more goes, and what is missing here is said, all of it.
pub fn begin(
    app: &App,
    context: &Context<'_>,
    meant: &Meant,
    request: &UpRequest,
) -> Result<(), CommandError> {
    let settings = &meant.settings;
    let how = AutoPrune {
        older_than: settings.auto_prune_age.value,
        engine: settings::same(settings.image_engine.value)?,
        dry_run: false,
        about_to_run: request.target(),
    };
    Stage::AutoPrune.run(&app.console, || {
        auto_prune(context, &how);
        Ok::<(), CommandError>(())
    })?;
    let begun = Instant::now();
    let name = sandbox_lifecycle::sandbox_name(context, &request.target())?;
    if context.runtime.inspect(&name)?.is_some_and(|info| info.status == Status::Running) {
        Stage::PreFlight.report(&app.console, "the sandbox runs already", begun.elapsed());
        return Ok(());
    }
    Stage::PreFlight.run(&app.console, || match lacking(&wiring::examine(&context.layout, settings)) {
        Some(error) => Err(error),
        None => Ok(()),
    })
}

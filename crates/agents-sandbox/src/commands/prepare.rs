//! What `run`, `shell` and `exec` have in common.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Instant;

use sandbox_lifecycle::prune::{AutoPrune, auto_prune};
use sandbox_lifecycle::{Context, Extent, LifecycleError, Stage, Target, Up, UpRequest, rehearse};
use sandbox_model::NetworkPolicy;

use super::CommandResult;
use super::args::AgentArg;
use crate::app::App;
use crate::doctor::lacking;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::project::repository_unseen;
use crate::reach;
use crate::report::plain;
use crate::settings::{self, Meant};
use crate::terminal::{
    self, Ended, Interruptible, Streams, attach as attach_terminal, describe_terminal, terminal_size,
};
use crate::wiring;

/// A terminal when there is one on both sides. Otherwise pipes, and no input from a terminal that is only on
/// stdin: a program that reads to the end would wait for ever.
pub fn streams() -> Streams {
    let stdin = std::io::stdin().is_terminal();
    let tty = stdin && std::io::stdout().is_terminal();
    Streams { tty, stdin: tty || !stdin, detach: false }
}

/// Brings the sandbox up. Its secrets' values are where they belong then, and wiped here: a client stays for as
/// long as its command.
pub fn up(context: &Context<'_>, request: &mut UpRequest) -> Result<Up, LifecycleError> {
    let up = sandbox_lifecycle::up(context, request)?;
    request.secret_values.clear();
    Ok(up)
}

/// Copies configuration and files into the home, runs what is to be run after a boot, and starts Docker
/// where it is wanted. The first two do not keep the command from going on, but for what the user can mend
/// on the host.
pub fn provision(
    context: &Context<'_>,
    request: &UpRequest,
    up: &Up,
    streams: Streams,
) -> Result<(), CommandError> {
    fill_home(context, request, up, streams)?;
    match sandbox_lifecycle::ensure_docker(context, request, up) {
        Ok(()) => Ok(()),
        // Whoever looks for the cause must get in.
        Err(error @ LifecycleError::Docker { .. }) if request.verb != "run" => {
            context.reporter.warning(&error.to_string());
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

fn fill_home(
    context: &Context<'_>,
    request: &UpRequest,
    up: &Up,
    streams: Streams,
) -> Result<(), CommandError> {
    let assembly = match sandbox_lifecycle::provision(context, request, up) {
        Ok((_, assembly)) => assembly,
        Err(error @ LifecycleError::Provision { .. }) => {
            context.reporter.warning(&error.to_string());
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    let tty = streams.tty.then(terminal_size).flatten();
    for mut hook in sandbox_lifecycle::startup_hooks(context, request, up, &assembly, tty)? {
        describe_terminal(&mut hook.command, &request.settings.env);
        context.reporter.verbose(&format!("running ~/{}", hook.target));
        let session = context.runtime.exec(&up.name, &hook.command)?;
        let problem =
            match attach_terminal(session, Streams { stdin: streams.tty, detach: false, ..streams })? {
                Ended::Exited(status) if status.success() => continue,
                Ended::Exited(status) => format!("ended with exit code {}", status.shell_code()),
                // Whoever wants us to leave does not want the agent either.
                Ended::Signal(signal) => return Err(interrupted(signal)),
                Ended::Detached | Ended::ReaderGone => return Err(interrupted(13)),
                Ended::Lost(error) => return Err(error.into()),
            };
        context.reporter.warning(&format!("the startup hook ~/{} {problem}", hook.target));
    }
    Ok(())
}

fn interrupted(signal: i32) -> CommandError {
    let exit = Exit::from_signal(u8::try_from(signal).unwrap_or(u8::MAX));
    CommandError { exit, silent: true, ..CommandError::new("interrupted") }
}

/// Lets Ctrl-C end what is prepared, a boot included, instead of leaving it to itself.
pub fn interruptible(context: &Context<'_>, target: Target) -> Result<Interruptible, CommandError> {
    let (layout, runtime) = (context.layout.clone(), Arc::clone(&context.runtime));
    let give_up = move || drop(sandbox_lifecycle::abandon(&layout, runtime.as_ref(), &target));
    terminal::interruptible(give_up)
        .map_err(|error| CommandError::new(format!("signals cannot be watched: {error}")))
}

/// Whether the sandbox is about to be made.
pub fn is_new(context: &Context<'_>, request: &UpRequest) -> Result<bool, CommandError> {
    let name = sandbox_lifecycle::sandbox_name(context, &request.target())?;
    Ok(context.runtime.inspect(&name)?.is_none())
}

/// Tells whoever makes a sandbox what it will reach. Returns whether it is about to be made.
pub fn introduce(
    app: &App,
    context: &Context<'_>,
    request: &UpRequest,
    agent: &AgentArg,
) -> Result<bool, CommandError> {
    tell_what_is_written_anyway(app, context, request)?;
    let first = is_new(context, request)?;
    if first {
        let network = reach(&request.settings.network);
        if !request.settings.secrets.is_empty() {
            let secrets = request.settings.secrets.iter();
            let list: Vec<String> =
                secrets.map(|secret| format!("{} for {}", secret.name, secret.reach())).collect();
            app.console.info(&format!("secrets: {}", list.join("; ")));
        }
        app.console.info(&format!(
            "network: {network}; `{}` shows what is refused, `agents-sandbox network allow` opens more",
            agent.after("agents-sandbox network log")
        ));
        introduce_repository(app, request);
    }
    Ok(first)
}

/// Says which mounts the sandbox can write although they are to be read only, wherever it does not have just these
/// mounts already.
pub fn tell_what_is_written_anyway(
    app: &App,
    context: &Context<'_>,
    request: &UpRequest,
) -> Result<(), CommandError> {
    let mounts = &request.settings.mounts;
    let mut anyway = reach::writable_anyway(mounts, &request.project.root).peekable();
    if anyway.peek().is_none() {
        return Ok(());
    }
    let there = context.runtime.inspect(&sandbox_lifecycle::sandbox_name(context, &request.target())?)?;
    if there.is_some_and(|info| info.spec.mounts == *mounts) {
        return Ok(());
    }
    for (mount, folder) in anyway {
        let (source, target) = (mount.source.display(), &mount.target);
        let folder = if folder == request.project.root {
            "the project's folder".to_string()
        } else {
            format!("{}, which is in the sandbox too", folder.display())
        };
        app.console.warning(&format!(
            "{source} is read-only at {target}, and in {folder}, where the sandbox can write it"
        ));
    }
    Ok(())
}

/// A repository in another folder than the checkout is given to the sandbox too, and that is worth a word.
fn introduce_repository(app: &App, request: &UpRequest) {
    let (project, mounts) = (&request.project, &request.settings.mounts);
    if let Some(repository) = repository_unseen(project, mounts) {
        let repository = repository.display();
        app.console.warning(&format!(
            "git does not work in this sandbox: the repository of this checkout is {repository}, and does not \
             know it, or is at a place where nothing can be mounted. A mount brings it there, in your own \
             settings: `mounts: {{{repository}: {repository}}}`"
        ));
    } else if let Some(repository) = &project.repository
        && !repository.path.starts_with(&project.root)
    {
        let repository = repository.path.display();
        app.console.info(&format!(
            "the repository of this checkout, {repository}, is in the sandbox too, for git; `mounts` can make it \
             read-only"
        ));
    }
}

/// What a policy opens, in one line.
fn reach(policy: &NetworkPolicy) -> String {
    let profile = policy.profile.to_string();
    if policy.egress_allow.is_empty() {
        profile
    } else {
        format!("{profile}, and {}", policy.egress_allow.join(", "))
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
        format!("network    {}", reach(&settings.network)),
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
        memory_keep: settings.memory_keep.value,
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
    // Looking at everything costs more than the start of a sandbox, which names by itself what has gone
    // missing since it was made.
    if context.runtime.inspect(&name)?.is_some() {
        Stage::PreFlight.report(&app.console, "passed when the sandbox was made", begun.elapsed());
        return Ok(());
    }
    Stage::PreFlight.run(&app.console, || match lacking(&wiring::examine(&context.layout, settings)) {
        Some(error) => Err(error),
        None => Ok(()),
    })
}

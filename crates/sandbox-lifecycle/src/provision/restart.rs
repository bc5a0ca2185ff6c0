//! Whether the agent's server may start again for its new configuration.

use std::time::Duration;

use sandbox_agents::{Server, activity};
use sandbox_model::{GUEST_WORKSPACE, SessionKind};
use sandbox_state::{DaemonRecord, SandboxFiles, read_record};

use crate::{Context, Declined, Result, ServerChoice, ServerQuestion, Up, UpRequest};

/// For one request to the agent's server.
const PATIENCE: Duration = Duration::from_secs(5);

/// What becomes of a server that was started before its configuration changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    /// Nobody uses it, or those who do are to be cut off.
    Now,
    /// It goes on as it is.
    Later,
}

/// Asks where somebody, or the agent's own work, would be cut off. Only `run` is where the agent is meant;
/// every other verb leaves its server alone then.
pub fn may_restart(
    context: &Context<'_>,
    request: &UpRequest,
    up: &Up,
    files: &SandboxFiles,
) -> Result<Restart> {
    let Some(held) = held(context, up, files) else { return Ok(Restart::Now) };
    let question = ServerQuestion { sandbox: &up.name, agent: up.profile.name, held: &held };
    let choice = if request.verb == "run" {
        context.reporter.decisions().server(&question)
    } else {
        ServerChoice::Keep
    };
    match choice {
        ServerChoice::Keep => Ok(Restart::Later),
        ServerChoice::Restart => Ok(Restart::Now),
        ServerChoice::Quit => Err(Declined::error()),
    }
}

/// Who or what uses the server, but for the caller.
fn held(context: &Context<'_>, up: &Up, files: &SandboxFiles) -> Option<String> {
    match up.lease.other_clients() {
        0 => sessions(context, up, files),
        1 => Some("used by another client".into()),
        count => Some(format!("used by {count} other clients")),
    }
}

/// What its sessions are at. A server that slept answers as before, whatever boot its record names.
fn sessions(context: &Context<'_>, up: &Up, files: &SandboxFiles) -> Option<String> {
    let daemon = up.profile.daemon.as_ref()?;
    let record = read_record::<DaemonRecord>(&files.daemon()).ok().flatten()?;
    let dial = || context.runtime.dial(&up.name, record.port);
    let server = Server::new(daemon, Box::new(dial), &record.password, PATIENCE);
    match activity(server, GUEST_WORKSPACE).poll() {
        Ok(sessions) => {
            let idle = |kind: &SessionKind| matches!(kind, SessionKind::Idle);
            let count = sessions.iter().filter(|session| !idle(&session.kind)).count();
            let word = if count == 1 { "session" } else { "sessions" };
            (count > 0).then(|| format!("at work on {count} {word}"))
        }
        // What nobody knows is protected; but the server of another boot is gone, not silent.
        Err(_) if record.is_of(&up.boot_id, &up.guest_boot) => Some("silent about what it does".into()),
        Err(_) => None,
    }
}

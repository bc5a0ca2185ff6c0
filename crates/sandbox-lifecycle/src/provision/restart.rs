//! Whether the agent's server may start again for its new configuration.

use std::ops::ControlFlow;
use std::time::Duration;

use sandbox_agents::{Server, activity};
use sandbox_model::{AgentName, GUEST_WORKSPACE, SandboxName, SessionKind};
use sandbox_state::{DaemonRecord, SandboxFiles, read_record};

use crate::{
    Context, Declined, LifecycleError, Result, ServerChoice, ServerQuestion, Target, Up, UpRequest,
    keeper_status,
};

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

/// Whether it may start again, with all that the answer rests on.
pub struct Question {
    sandbox: SandboxName,
    agent: AgentName,
    held: String,
    /// Process ids of the sandbox's clients.
    clients: Vec<u32>,
    /// The server's password, which is another for every start.
    server: Option<String>,
}

/// What the user said to it; never to quit.
pub struct Answer {
    question: Question,
    choice: ServerChoice,
}

impl Question {
    /// Asks a person. The caller holds no lock. Fails with [`Declined`] where the user quits.
    pub fn ask(self, context: &Context<'_>) -> Result<Answer> {
        let question = ServerQuestion { sandbox: &self.sandbox, agent: self.agent, held: &self.held };
        match context.reporter.decisions().server(&question) {
            ServerChoice::Quit => Err(Declined::error()),
            choice => Ok(Answer { question: self, choice }),
        }
    }
}

impl Answer {
    /// The very server that was asked about is to start again, also where others have copied the configuration by
    /// now.
    pub fn restarts(&self, files: &SandboxFiles) -> bool {
        self.choice == ServerChoice::Restart && self.question.server == server(files)
    }
}

/// Whether the server may start again, or the question that comes first where somebody, or the agent's own work,
/// would be cut off. Only `run` is where the agent is meant; every other verb leaves its server alone then.
pub fn may_restart(
    context: &Context<'_>,
    request: &UpRequest,
    up: &Up,
    files: &SandboxFiles,
    answer: Option<&Answer>,
) -> Result<ControlFlow<Question, Restart>> {
    let clients = clients(context, &request.target());
    let others = match answer {
        // They may have left meanwhile, or come.
        Some(_) if !clients.is_empty() => u32::try_from(clients.len() - 1).unwrap_or(u32::MAX),
        _ => up.lease.other_clients(),
    };
    let Some(held) = held(context, up, files, others) else {
        return Ok(ControlFlow::Continue(Restart::Now));
    };
    if request.verb != "run" {
        return Ok(ControlFlow::Continue(Restart::Later));
    }
    let covers = |asked: &Question| clients.iter().all(|pid| asked.clients.contains(pid));
    let choice = match answer {
        Some(Answer { choice: ServerChoice::Keep, .. }) => ServerChoice::Keep,
        Some(Answer { question, choice }) if covers(question) => *choice,
        _ => {
            let (sandbox, agent) = (up.name.clone(), up.profile.name);
            let question = Question { sandbox, agent, held, clients, server: server(files) };
            if context.reporter.decisions().takes_time() {
                return Ok(ControlFlow::Break(question));
            }
            question.ask(context)?.choice
        }
    };
    Ok(ControlFlow::Continue(match choice {
        ServerChoice::Restart => Restart::Now,
        ServerChoice::Keep | ServerChoice::Quit => Restart::Later,
    }))
}

/// While a person was asked anybody could stop the sandbox, whoever has a lease.
pub fn check_still_up(context: &Context<'_>, up: &Up) -> Result<()> {
    let there = context.runtime.inspect(&up.name)?.is_some();
    let boot = if there { context.runtime.boot_id(&up.name)? } else { None };
    if boot.as_ref() == Some(&up.boot_id) {
        Ok(())
    } else {
        Err(LifecycleError::EndedMeanwhile(up.name.clone()))
    }
}

/// This one among them; empty where no keeper answers.
fn clients(context: &Context<'_>, target: &Target) -> Vec<u32> {
    let status = keeper_status(context, target);
    status.map(|status| status.clients.iter().map(|client| client.pid).collect()).unwrap_or_default()
}

fn server(files: &SandboxFiles) -> Option<String> {
    read_record::<DaemonRecord>(&files.daemon()).ok().flatten().map(|record| record.password)
}

/// Who or what uses the server, but for the caller.
fn held(context: &Context<'_>, up: &Up, files: &SandboxFiles, others: u32) -> Option<String> {
    match others {
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

use std::time::{Duration, Instant};

use sandbox_model::{Session, SessionKind};

use crate::{Note, Reason};

/// The settings that the decision obeys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// How long the sandbox stays up after the last that held it.
    pub timeout: Duration,
    /// How long at least a sandbox waits that never had a client.
    pub first_lease: Duration,
    /// Sessions hold nothing: only clients do.
    pub stop_on_active_sessions: bool,
    /// A session in retry holds the sandbox while its attempt is below this.
    pub max_session_retries: u32,
    /// For so long an agent that does not answer holds the sandbox.
    pub agent_patience: Duration,
}

/// What is known of the agent's sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentView {
    /// Its last answer.
    Sessions(Vec<Session>),
    /// No answer since then; `error` is what the last question came to, where it came to something.
    NoAnswer { since: Instant, error: Option<String> },
}

/// Everything a decision depends on.
#[derive(Debug, Clone)]
pub struct Inputs<'a> {
    /// The moment of the decision, by a clock that no one sets.
    pub now: Instant,
    /// What the settings say.
    pub rules: Rules,
    /// Leases that are open now.
    pub clients: usize,
    /// Whether there ever was a client.
    pub ever_leased: bool,
    /// When the last client left, or the last session that held the sandbox was seen, or (with neither)
    /// the keeper began: the latest of them.
    pub idle_since: Instant,
    /// Until when a client asked to hold the sandbox.
    pub keep_until: Option<Instant>,
    /// Only looked at without clients, and where sessions count.
    pub agent: &'a AgentView,
}

/// What to do about the sandbox now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Stop it: nothing holds it, and its time is over.
    Stop(Note),
    /// Leave it: something holds it.
    Hold(Reason),
    /// Nothing holds it: it stops then, unless something changes.
    StopAt(Instant, Note),
}

/// Whether the sandbox stays up.
///
/// - A client holds it.
/// - So does a client's wish to keep it, until its time is over.
/// - With `auto-stop-on-active-sessions` nothing else does.
/// - A busy session holds it, unless it waits for the user: then it is not working.
/// - A session in retry holds it while its attempt is below `auto-stop-max-session-retries`. Below, its work is
///   likely to go on by itself (a busy provider, a limit that passes) and a stop would throw it away; from
///   there on the provider is down or refuses, and a sandbox that waits for it would never stop. So the
///   setting is the number of retries to tolerate: at 0, a retry holds nothing.
/// - An agent that does not answer holds it for a bounded time (its server may be starting, or the machine
///   may be slow), then it counts as one without sessions. Only silence in a row counts.
/// - Without a holder it stops `auto-stop-timeout` after the last one; one that never had a client waits
///   a little longer for its first, so that a timeout of zero does not race with the command that started it.
pub fn decide(inputs: &Inputs<'_>) -> Decision {
    if inputs.clients > 0 {
        return Decision::Hold(Reason::Clients(inputs.clients));
    }
    let kept = inputs.keep_until.map(|until| until.saturating_duration_since(inputs.now));
    if let Some(left) = kept.filter(|left| !left.is_zero()) {
        return Decision::Hold(Reason::Kept { left });
    }
    let mut note = Note::default();
    if !inputs.rules.stop_on_active_sessions {
        match agent_holds(inputs) {
            Ok(quiet) => note = quiet,
            Err(reason) => return Decision::Hold(reason),
        }
    }
    let timeout = if inputs.ever_leased {
        inputs.rules.timeout
    } else {
        inputs.rules.timeout.max(inputs.rules.first_lease)
    };
    match inputs.idle_since.checked_add(timeout) {
        Some(at) if at > inputs.now => Decision::StopAt(at, note),
        Some(_) => Decision::Stop(note),
        // A timeout beyond the clock's range is for ever, or as good as: look again in an hour.
        None => Decision::StopAt(inputs.now + Duration::from_hours(1), note),
    }
}

fn agent_holds(inputs: &Inputs<'_>) -> Result<Note, Reason> {
    match inputs.agent {
        AgentView::Sessions(sessions) => sessions_hold(sessions, inputs.rules.max_session_retries),
        AgentView::NoAnswer { since, error } => {
            let silent = inputs.now.saturating_duration_since(*since);
            let error = || error.clone().unwrap_or_else(|| "no answer yet".into());
            match inputs.rules.agent_patience.checked_sub(silent).filter(|left| !left.is_zero()) {
                None => Ok(Note { no_answer: Some(error()), ..Note::default() }),
                Some(_) if matches!(inputs.agent, AgentView::NoAnswer { error: None, .. }) => {
                    Err(Reason::Asking)
                }
                Some(left) => Err(Reason::NoAnswer { error: error(), left }),
            }
        }
    }
}

/// Whether these sessions hold a sandbox; what to note where they do not.
pub(crate) fn sessions_hold(sessions: &[Session], max_retries: u32) -> Result<Note, Reason> {
    let (mut busy, mut retrying, mut note) = (0, 0, Note::default());
    for session in sessions {
        match session.kind {
            SessionKind::Busy => busy += 1,
            SessionKind::Retry { attempt } if attempt < max_retries => retrying += 1,
            SessionKind::Retry { .. } => note.stuck += 1,
            SessionKind::WaitingForUser => note.waiting += 1,
            SessionKind::Idle => {}
        }
    }
    if busy + retrying > 0 { Err(Reason::Sessions { busy, retrying }) } else { Ok(note) }
}

#[cfg(test)]
mod tests;

//! What the keeper knows, and how it comes to know it.

use super::{
    ActivityError, AgentView, Decision, Ended, Instant, Keeper, KeeperError, KeeperStatus, Letter, Look,
    Phase, Session, Status, StopOutcome, keep_until, seconds, sessions_hold,
};

impl Keeper {
    pub(super) fn status(&self) -> KeeperStatus {
        let clients = self.clients().cloned().collect();
        if matches!(self.phase, Phase::Stopping) {
            return KeeperStatus { clients, reason: "stopping".into(), stops_in_secs: Some(0) };
        }
        let (reason, stops_in_secs) = match self.decide() {
            Decision::Hold(reason) => (reason.to_string(), None),
            Decision::StopAt(at, note) => {
                let left = seconds(at.saturating_duration_since(Instant::now()));
                (format!("stops in {left} s{note}"), Some(left))
            }
            Decision::Stop(note) => (format!("stops now{note}"), Some(0)),
        };
        KeeperStatus { clients, reason, stops_in_secs }
    }

    /// The last client has left. What the agent said before is about another time.
    pub(super) fn become_idle(&mut self) {
        let now = Instant::now();
        self.idle_since = now;
        self.agent = AgentView::NoAnswer { since: now, error: None };
        self.round += 1;
        self.next_ask = now;
    }

    /// `Some` when there is nothing left to do.
    pub(super) fn read(&mut self, letter: Letter) -> Result<Option<Ended>, KeeperError> {
        match letter {
            Letter::Sessions(round, answer) => self.read_sessions(round, answer),
            Letter::Sandbox(round, look) => return Ok(self.read_look(round, look)),
            Letter::Stopped(Ok(slept), detached) => {
                if let Some(reason) = slept.why_not {
                    self.journal.write(&format!("its memory is not saved: {reason}"));
                }
                if detached > 0 {
                    let what = if slept.outcome == StopOutcome::Asleep { "sleep" } else { "ended" };
                    self.journal.write(&format!("{what} with it: {detached} without a terminal"));
                }
                return Ok(Some(Ended::Stopped(slept.outcome)));
            }
            Letter::Stopped(Err(source), _) => {
                return Err(KeeperError::Stop { name: self.config.sandbox.clone(), source });
            }
        }
        Ok(None)
    }

    fn read_sessions(&mut self, round: u64, answer: Result<Vec<Session>, ActivityError>) {
        let now = Instant::now();
        self.asking = false;
        if round != self.round {
            // Asked before the last client came or left: ask again at once.
            self.next_ask = now;
            return;
        }
        self.next_ask = now + self.config.timing.ask_every;
        match answer {
            Ok(sessions) => {
                if sessions_hold(&sessions, self.config.auto_stop_max_session_retries).is_err() {
                    self.idle_since = now;
                }
                self.agent = AgentView::Sessions(sessions);
            }
            Err(ActivityError(error)) => {
                let since = match self.agent {
                    AgentView::NoAnswer { since, .. } => since,
                    AgentView::Sessions(_) => now,
                };
                self.agent = AgentView::NoAnswer { since, error: Some(error) };
            }
        }
    }

    fn read_look(&mut self, round: u64, look: sandbox_runtime::Result<Look>) -> Option<Ended> {
        let now = Instant::now();
        self.looking = false;
        self.next_look = now + self.config.timing.check_every;
        if matches!(self.phase, Phase::Stopping) {
            return None;
        }
        match look {
            Ok(Some((status, boot))) if !status.is_at_rest() => {
                // One that is about to end may still have run a moment ago, and has no boot to build on.
                if let (Status::Running, Some(boot)) = (status, boot)
                    && self.boot.as_ref() != Some(&boot)
                {
                    self.keep_new_boot(boot);
                }
            }
            // A client came since the question was asked; it may have started the sandbox again.
            Ok(_) if round != self.round => self.next_look = now,
            Ok(_) => return Some(Ended::NothingToKeep),
            Err(error) => self.journal.write(&format!("cannot look at the sandbox: {error}")),
        }
        None
    }

    /// Stopped and started by someone else between two looks.
    fn keep_new_boot(&mut self, boot: String) {
        match self.runtime.hold(&self.config.sandbox) {
            Ok(hold) => {
                self.journal.write("the sandbox was started anew");
                self.hold = hold;
                self.boot = Some(boot);
                self.idle_since = Instant::now();
                // Whoever stopped it ended what was asked of the former boot. Those who are here came for this one.
                self.keep_until = self.clients().filter_map(keep_until).max();
            }
            // Gone again: the next look tells.
            Err(error) => self.journal.write(&format!("cannot hold the sandbox: {error}")),
        }
    }
}

use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sandbox_model::{Activity, ActivityError, Session, Status};
use sandbox_runtime::{Runtime, StopOutcome};
use sandbox_state::{Lock, LockMode, StateError, bind_socket};
use sandbox_wire::{ClientInfo, KeeperReply, KeeperRequest, KeeperStatus};

use crate::connection::{Connection, Heard, Role};
use crate::decide::sessions_hold;
use crate::journal::Journal;
use crate::mailbox::{Mailbox, Sending, mailbox};
use crate::reason::seconds;
use crate::ssh_agent::SshAgent;
use crate::workers::{self, Letter, Look};
use crate::{AgentView, Decision, Inputs, KeeperConfig, KeeperError, Note, Ready, Reason, decide};

/// How a keeper's life ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Another keeper watches this sandbox.
    AlreadyKept,
    /// It stopped the sandbox.
    Stopped(StopOutcome),
    /// The sandbox is at rest, or there is none: nothing to watch.
    NothingToKeep,
}

/// Watches one running sandbox until it is stopped, by this function or by anyone.
///
/// Writes one line to `ready` ([`Ready`]) as soon as clients can lease, or there is a reason why they never
/// will. Blocks for the life of the sandbox; run it in a process of its own.
pub fn run(
    config: KeeperConfig,
    runtime: Arc<dyn Runtime>,
    activity: Box<dyn Activity>,
    ready: &mut dyn Write,
) -> Result<Ended, KeeperError> {
    let files = config.files();
    let lock = match Lock::try_take(&files.lock, LockMode::Exclusive, "keeper") {
        Ok(lock) => lock,
        Err(StateError::Held { .. }) => {
            Ready::AlreadyKept.write(ready);
            return Ok(Ended::AlreadyKept);
        }
        Err(error) => return Err(Ready::failed(ready, error.into())),
    };
    let mut keeper = match Keeper::new(config, runtime, activity) {
        Ok(Some(keeper)) => keeper,
        Ok(None) => {
            Ready::NothingToKeep.write(ready);
            return Ok(Ended::NothingToKeep);
        }
        Err(error) => return Err(Ready::failed(ready, error)),
    };
    Ready::Serving.write(ready);
    let ended = keeper.serve();
    keeper.journal.write(&match &ended {
        Ok(ended) => format!("over: {ended:?}"),
        Err(error) => format!("over: {}", whole(error)),
    });
    // The lock first: whoever sees its connection close may start the next keeper at once.
    drop(lock);
    drop(keeper);
    ended
}

/// An error with everything below it, in one line.
fn whole(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |below| format!("{error}: {}", whole(below)))
}

enum Phase {
    Serving,
    /// Irrevocable: every new client is told to wait.
    Stopping,
}

struct Keeper {
    config: KeeperConfig,
    runtime: Arc<dyn Runtime>,
    journal: Journal,
    listener: UnixListener,
    connections: Vec<Connection>,
    mailbox: Mailbox<Letter>,
    sending: Sending<Letter>,
    ask_agent: Sender<u64>,
    look: Sender<u64>,
    phase: Phase,
    ever_leased: bool,
    idle_since: Instant,
    keep_until: Option<Instant>,
    agent: AgentView,
    /// Raised when a client comes: an answer to an older question is about another time.
    round: u64,
    asking: bool,
    next_ask: Instant,
    looking: bool,
    next_look: Instant,
    boot: Option<String>,
    /// Counts as a client of the runtime, so that its own idle stop stays below this one.
    hold: Box<dyn Send>,
    ssh_agent: SshAgent,
    logged: Option<Result<Reason, Note>>,
}

impl Keeper {
    /// `None` when the sandbox does not run.
    fn new(
        config: KeeperConfig,
        runtime: Arc<dyn Runtime>,
        activity: Box<dyn Activity>,
    ) -> Result<Option<Self>, KeeperError> {
        let files = config.files();
        let boot = match workers::look(runtime.as_ref(), &config.sandbox)? {
            Some((status, boot)) if !status.is_at_rest() => boot,
            _ => return Ok(None),
        };
        let hold = runtime.hold(&config.sandbox)?;
        let listener = bind_socket(&files.socket)?;
        listener.set_nonblocking(true)?;
        let (mailbox, sending) = mailbox()?;
        let now = Instant::now();
        let mut journal = Journal::new(&files.log);
        journal.write(&format!("process {} watches {}", std::process::id(), config.sandbox));
        Ok(Some(Self {
            ask_agent: workers::agent(activity, sending.try_clone()?)?,
            look: workers::watcher(runtime.clone(), config.sandbox.clone(), sending.try_clone()?)?,
            next_look: now + config.timing.check_every,
            config,
            runtime,
            journal,
            listener,
            connections: Vec::new(),
            mailbox,
            sending,
            phase: Phase::Serving,
            ever_leased: false,
            idle_since: now,
            keep_until: None,
            agent: AgentView::NoAnswer { since: now, error: None },
            round: 0,
            asking: false,
            next_ask: now,
            looking: false,
            boot,
            hold,
            ssh_agent: SshAgent::new(&files.ssh_agent_log),
            logged: None,
        }))
    }

    fn serve(&mut self) -> Result<Ended, KeeperError> {
        loop {
            let mut wake = None;
            if matches!(self.phase, Phase::Serving) {
                wake = Some(self.act()?);
            }
            let letters = self.sleep(wake)?;
            for letter in letters {
                if let Some(ended) = self.read(letter)? {
                    return Ok(ended);
                }
            }
            self.hear_everyone();
        }
    }

    /// Decides, and does it. Returns when to decide again at the latest.
    fn act(&mut self) -> Result<Instant, KeeperError> {
        let mut decision = self.decide();
        if matches!(decision, Decision::Stop(_)) {
            // The last look: every client that asked before this line is counted, every later one is told
            // to wait, because nothing else happens between here and the change of phase.
            self.hear_everyone();
            decision = self.decide();
        }
        self.log(&decision);
        let now = Instant::now();
        if let Decision::Stop(_) = decision {
            self.phase = Phase::Stopping;
            let name = self.config.sandbox.clone();
            let grace = self.config.timing.stop_grace;
            let boot = self.boot.clone();
            let how = (grace, self.config.sleep);
            workers::stopper(self.runtime.clone(), name, boot, how, self.sending.try_clone()?)?;
            return Ok(now);
        }
        let idle = self.clients().count() == 0;
        if idle && !self.config.auto_stop_on_active_sessions && !self.asking && self.next_ask <= now {
            self.asking = self.ask_agent.send(self.round).is_ok();
        }
        if !self.looking && self.next_look <= now {
            self.looking = self.look.send(self.round).is_ok();
        }
        let mut wake = now + self.config.timing.check_every.max(self.config.timing.ask_every);
        if let Decision::StopAt(at, _) = decision {
            wake = wake.min(at);
        }
        if idle && !self.asking {
            wake = wake.min(self.next_ask);
        }
        if !self.looking {
            wake = wake.min(self.next_look);
        }
        Ok(wake)
    }

    fn decide(&self) -> Decision {
        decide(&Inputs {
            now: Instant::now(),
            rules: self.config.rules(),
            clients: self.clients().count(),
            ever_leased: self.ever_leased,
            idle_since: self.idle_since,
            keep_until: self.keep_until,
            agent: &self.agent,
        })
    }

    fn log(&mut self, decision: &Decision) {
        let (now, text) = match decision {
            Decision::Hold(reason) => (Ok(reason.clone()), reason.to_string()),
            Decision::StopAt(at, note) => {
                let left = at.saturating_duration_since(Instant::now());
                (Err(note.clone()), format!("stops in {} s{note}", seconds(left)))
            }
            Decision::Stop(note) => {
                self.logged = None;
                (Err(note.clone()), format!("stopping{note}"))
            }
        };
        let is_another = match (&now, &self.logged) {
            (Ok(reason), Some(Ok(before))) => reason.is_another(before),
            (Err(note), Some(Err(before))) => note != before,
            _ => true,
        };
        if is_another {
            self.journal.write(&text);
            self.logged = Some(now);
        }
    }

    fn clients(&self) -> impl Iterator<Item = &ClientInfo> {
        self.connections.iter().filter_map(|connection| match &connection.role {
            Role::Client(info) => Some(info),
            _ => None,
        })
    }

    /// Sleeps until someone speaks, a letter comes, or it is time.
    fn sleep(&mut self, wake: Option<Instant>) -> Result<Vec<Letter>, KeeperError> {
        let timeout = wake.map(|wake| wake.saturating_duration_since(Instant::now()));
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: timeout.as_secs().cast_signed(),
            tv_nsec: timeout.subsec_nanos().into(),
        });
        let mut fds = vec![
            PollFd::from_borrowed_fd(self.mailbox.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.listener.as_fd(), PollFlags::IN),
        ];
        let connections = self.connections.iter();
        fds.extend(connections.map(|c| PollFd::from_borrowed_fd(c.as_fd(), PollFlags::IN)));
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(Vec::new()),
            Err(error) => return Err(std::io::Error::from(error).into()),
        }
        let has_letters = !fds[0].revents().is_empty();
        drop(fds);
        Ok(if has_letters { self.mailbox.take() } else { Vec::new() })
    }

    /// Takes everyone who knocks and everything that was said, without waiting for more.
    fn hear_everyone(&mut self) {
        let now = Instant::now();
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => self.connections.extend(Connection::new(stream, now)),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => {
                    // Out of descriptors: those who knock wait until someone leaves.
                    self.journal.write(&format!("cannot take a client: {error}"));
                    std::thread::sleep(Duration::from_millis(50));
                    break;
                }
            }
        }
        let mut index = 0;
        while index < self.connections.len() {
            let mut connection = self.connections.remove(index);
            if self.converse(&mut connection, now) {
                self.connections.insert(index, connection);
                index += 1;
            }
        }
    }

    /// Whether the connection is worth keeping.
    fn converse(&mut self, connection: &mut Connection, now: Instant) -> bool {
        loop {
            match connection.hear() {
                Heard::Nothing => break,
                Heard::Gone => {
                    if let Role::Client(info) = &connection.role {
                        self.journal.write(&format!("{} of process {} left", info.verb, info.pid));
                        // At once: whoever asks next, in this same round, is told of the new state.
                        if self.clients().count() == 0 {
                            self.become_idle();
                        }
                    }
                    return false;
                }
                Heard::Request(request) => {
                    if !self.serve_request(connection, request) {
                        return false;
                    }
                }
            }
        }
        match connection.role {
            Role::Asking { since } => {
                now.saturating_duration_since(since) < self.config.timing.request_patience
            }
            Role::Client(_) | Role::Waiting => true,
        }
    }

    /// Whether the connection is worth keeping.
    fn serve_request(&mut self, connection: &mut Connection, request: KeeperRequest) -> bool {
        match (request, &self.phase) {
            (KeeperRequest::Status, _) => {
                // Whoever asks may have removed the sandbox just now, and wait until this keeper has seen it.
                self.next_look = Instant::now();
                connection.answer(&KeeperReply::Status(self.status()))
            }
            (KeeperRequest::Lease(_), Phase::Stopping) => {
                connection.role = Role::Waiting;
                connection.answer(&KeeperReply::Draining)
            }
            (KeeperRequest::Lease(info), Phase::Serving) => {
                let others = self.clients().count();
                if !connection
                    .answer(&KeeperReply::Leased { other_clients: u32::try_from(others).unwrap_or(u32::MAX) })
                {
                    return false;
                }
                self.journal.write(&format!("{} of process {} came", info.verb, info.pid));
                self.keep_until = self.keep_until.max(keep_until(&info));
                if let Some(offer) = &info.ssh_agent {
                    if let Err(error) = self.ssh_agent.take(offer, &self.runtime, &self.config.sandbox) {
                        self.journal.write(&format!("the ssh-agent is not served: {error}"));
                    }
                } else if !self.clients().any(|client| client.ssh_agent.is_some()) {
                    self.ssh_agent.withdraw();
                }
                connection.role = Role::Client(info);
                self.ever_leased = true;
                self.round += 1;
                true
            }
        }
    }
}

/// How long a client that comes now wants the sandbox to be kept.
fn keep_until(client: &ClientInfo) -> Option<Instant> {
    // A moment beyond the clock's range is no moment at all.
    Instant::now().checked_add(Duration::from_secs(client.keep_secs?))
}

mod facts;

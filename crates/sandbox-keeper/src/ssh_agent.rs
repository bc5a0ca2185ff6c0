//! Hands the guest's questions to the user's ssh-agent, as far as the rules of the last client go.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use sandbox_model::{AgentRules, SandboxName};
use sandbox_runtime::{Connection, Runtime, RuntimeError};
use sandbox_ssh_agent::Event;
use sandbox_wire::SshAgentOffer;

use crate::crowd::Crowd;
use crate::journal::Journal;

/// Where clients' agents are: an older one serves where a newer one, of a login that is over, is gone.
const SOCKETS: usize = 8;
/// Programs of the guest at once; the next waits for one to leave, and is told so by an end.
const MOST: usize = 16;
/// A boot that ends and the next that begins miss each other for a moment.
const AGAIN: Duration = Duration::from_millis(300);
const STACK: usize = 1 << 20;

/// The user's agent, as the clients of this keeper offered it.
#[derive(Clone)]
pub(crate) struct SshAgent {
    shared: Arc<Shared>,
}

struct Shared {
    offer: Mutex<Offer>,
    log: Mutex<Log>,
    clients: AtomicUsize,
}

/// `ssh-agent.log`. What was signed must not be pushed out by what a guest may ask for without end.
struct Log {
    journal: Journal,
    crowd: Crowd,
}

impl Log {
    fn write(&mut self, text: &str) {
        // Names from the guest's side are in it.
        let text: String =
            text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).take(500).collect();
        let left_out = self.crowd.take_left_out();
        if left_out > 0 {
            self.journal.write(&format!("{left_out} more that were listed, refused or failed"));
        }
        self.journal.write(&text);
    }
}

#[derive(Default)]
struct Offer {
    /// The newest first.
    sockets: VecDeque<PathBuf>,
    rules: AgentRules,
    serving: bool,
}

impl SshAgent {
    pub fn new(log: &std::path::Path) -> Self {
        let shared = Shared {
            offer: Mutex::default(),
            log: Mutex::new(Log { journal: Journal::new(log), crowd: Crowd::default() }),
            clients: AtomicUsize::new(0),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Takes what a client offers; the first one begins the service.
    pub fn take(
        &self,
        offer: &SshAgentOffer,
        runtime: &Arc<dyn Runtime>,
        name: &SandboxName,
    ) -> std::io::Result<()> {
        let begins = {
            let mut known = self.shared.offer.lock().unwrap_or_else(PoisonError::into_inner);
            known.rules = offer.rules.clone();
            if let Some(socket) = &offer.socket {
                known.sockets.retain(|other| other != socket);
                known.sockets.push_front(socket.clone());
                known.sockets.truncate(SOCKETS);
            }
            !std::mem::replace(&mut known.serving, true)
        };
        if begins {
            let (agent, runtime, name) = (self.clone(), Arc::clone(runtime), name.clone());
            Builder::new().name("ssh-agent".into()).stack_size(STACK).spawn(move || {
                agent.serve(runtime.as_ref(), &name);
            })?;
        }
        Ok(())
    }

    /// Nobody who is here offers one any more: what an earlier client offered ends with its wish for it.
    pub fn withdraw(&self) {
        let mut known = self.shared.offer.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.sockets.is_empty() {
            known.sockets.clear();
            drop(known);
            self.write("withdrawn: the last client came without an ssh-agent");
        }
    }

    /// For as long as this process lives, whichever boots come and go.
    fn serve(&self, runtime: &dyn Runtime, name: &SandboxName) {
        loop {
            if self.shared.clients.load(Ordering::Relaxed) >= MOST {
                std::thread::sleep(AGAIN);
                continue;
            }
            // A boot that was made without one has none, whoever offers one since.
            if !runtime.inspect(name).is_ok_and(|info| info.is_some_and(|info| info.spec.ssh_agent)) {
                std::thread::sleep(AGAIN);
                continue;
            }
            match runtime.accept_ssh_agent(name) {
                Ok(client) => self.attend(client),
                Err(RuntimeError::Unsupported(why)) => return self.write(why),
                Err(_) => std::thread::sleep(AGAIN),
            }
        }
    }

    fn attend(&self, mut client: Box<dyn Connection>) {
        self.shared.clients.fetch_add(1, Ordering::Relaxed);
        let agent = self.clone();
        let attended = Builder::new().name("ssh-agent client".into()).stack_size(STACK).spawn(move || {
            let now = || agent.now();
            // A client that leaves in the middle has its reasons.
            let _ = sandbox_ssh_agent::forward(client.as_mut(), now, |event| agent.tell(event));
            agent.shared.clients.fetch_sub(1, Ordering::Relaxed);
        });
        if let Err(error) = attended {
            self.shared.clients.fetch_sub(1, Ordering::Relaxed);
            self.write(&format!("a program of the sandbox cannot be served: {error}"));
        }
    }

    fn now(&self) -> (Vec<PathBuf>, AgentRules) {
        let offer = self.shared.offer.lock().unwrap_or_else(PoisonError::into_inner);
        (offer.sockets.iter().cloned().collect(), offer.rules.clone())
    }

    fn tell(&self, event: &Event<'_>) {
        let mut log = self.shared.log.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(event, Event::Signed { .. }) || log.crowd.admits(Instant::now()) {
            log.write(&event.to_string());
        }
    }

    fn write(&self, text: &str) {
        self.shared.log.lock().unwrap_or_else(PoisonError::into_inner).write(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_withdrawn_serves_nobody_and_is_told_once() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let agent = SshAgent::new(&log);
        agent.withdraw();
        agent.shared.offer.lock().unwrap().sockets.push_front("/run/agent".into());
        assert_eq!(agent.now().0, [PathBuf::from("/run/agent")]);
        agent.withdraw();
        agent.withdraw();
        assert!(agent.now().0.is_empty());
        assert_eq!(std::fs::read_to_string(log).unwrap().matches("withdrawn").count(), 1);
    }
}

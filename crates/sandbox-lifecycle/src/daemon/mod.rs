//! The agent's server inside the guest: one per boot, started by whoever needs it first.

mod process;

use std::sync::Arc;
use std::time::{Duration, Instant};

use sandbox_agents::{DAEMON_PORT, DaemonProfile, Server, ServerError, health};
use sandbox_state::{DaemonRecord, SandboxFiles, read_record, write_record};

use crate::kept;
use crate::locks::server_lock;
use crate::{Context, LifecycleError, Result, Up, UpRequest};

use process::Process;

/// Emulated, on a very busy machine, a server has been seen to take 97 s.
const DEADLINE: Duration = Duration::from_mins(5);
/// Seconds in the place of [`DEADLINE`], in builds for development: nobody waits that long for a test.
#[cfg(debug_assertions)]
const SHORTER: &str = "AGENTS_SANDBOX_FAKE_SERVER_DEADLINE";
/// For one request. A server that boots never answers, so this is how long such a request is held.
const PATIENCE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(200);
/// How often the process itself is looked at while its port does not answer.
const LOOK: Duration = Duration::from_secs(3);

/// How to reach the agent's server inside the guest. Valid for one boot.
#[derive(Clone, PartialEq, Eq)]
pub struct Daemon {
    /// On the guest's loopback.
    pub port: u16,
    /// For the user name that its profile says.
    pub password: String,
}

impl std::fmt::Debug for Daemon {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Daemon").field("port", &self.port).finish_non_exhaustive()
    }
}

/// Makes sure that the agent's server answers, starting it where it does not. `None` for an agent that has
/// no server.
///
/// Blocks up to five minutes, as long as the server's process lives.
pub fn ensure_daemon(context: &Context<'_>, request: &UpRequest, up: &Up) -> Result<Option<Daemon>> {
    let Some(daemon) = &up.profile.daemon else { return Ok(None) };
    let target = request.target();
    let files = context.layout.sandbox_state(&target.checkout, target.agent);
    let waiter = Waiter { context, up, profile: daemon };
    // A server that slept answers as before: its boot is over, its record is not.
    if let Some(mut record) = read_record::<DaemonRecord>(&files.daemon())?
        && waiter.healthy(&record).is_ok()
    {
        keep(&files, &mut record, up)?;
        return Ok(Some(reachable(&record)));
    }
    let _lock = server_lock(context, &target, request.verb)?;
    let process = Process::new(context, up, daemon);
    let begin = Instant::now();
    let failed = |problem| LifecycleError::Daemon {
        agent: request.agent,
        seconds: begin.elapsed().as_secs(),
        problem,
        log: process.log(),
    };
    if let Some(mut record) = read_record::<DaemonRecord>(&files.daemon())? {
        // Whoever held the lock has started it, or gave up while it was starting; or it slept, and has so much to
        // catch up on that it does not answer at once. One of a boot that is over does not live.
        let mut outcome = waiter.healthy(&record).map_err(|error| error.to_string());
        if outcome.is_err() && process.lives()? {
            outcome = waiter.wait(&process, &record);
            if context.reporter.cancelled() {
                // A user who does not want to wait does not want the agent's work ended.
                outcome.clone().map_err(failed)?;
            }
        }
        if outcome.is_ok() {
            keep(&files, &mut record, up)?;
            return Ok(Some(reachable(&record)));
        }
    }
    process.end()?;
    let password = hex::encode(rand::random::<[u8; 24]>());
    let record = DaemonRecord::new(&up.boot_id, &up.guest_boot, DAEMON_PORT, password);
    // Recorded first: a server whose password nobody knows would be of no use.
    write_record(&files.daemon(), &record)?;
    process.start(&record.password)?;
    waiter.wait(&process, &record).map_err(failed)?;
    Ok(Some(reachable(&record)))
}

/// The server of a client that is kept in `up.guest_dir` and that nobody looks at, where its process lives. Such
/// a client is back on the screen at once; a server that has much to catch up on, after a sleep, answers it later.
/// `None` where there is no such client: then [`ensure_daemon`].
pub fn daemon_of_kept_client(context: &Context<'_>, request: &UpRequest, up: &Up) -> Result<Option<Daemon>> {
    let Some(daemon) = &up.profile.daemon else { return Ok(None) };
    let target = request.target();
    let files = context.layout.sandbox_state(&target.checkout, target.agent);
    let Some(mut record) = read_record::<DaemonRecord>(&files.daemon())? else { return Ok(None) };
    let client = kept::agent(up, &record.password, &[]);
    if kept::detached_session(context, &up.name, &client)?.is_none()
        || !Process::new(context, up, daemon).lives()?
    {
        return Ok(None);
    }
    keep(&files, &mut record, up)?;
    Ok(Some(reachable(&record)))
}

/// Has the server make ready what the first session in `up.guest_dir` needs, while the client starts.
/// Nobody waits for it, and what fails is done when it is needed.
pub fn warm_up(context: &Context<'_>, up: &Up, daemon: &Daemon) {
    let Some(profile) = &up.profile.daemon else { return };
    let runtime = Arc::clone(&context.runtime);
    let (name, directory, daemon) = (up.name.clone(), up.guest_dir.clone(), daemon.clone());
    std::thread::spawn(move || {
        let dial = || runtime.dial(&name, daemon.port);
        let server = Server::new(profile, Box::new(dial), &daemon.password, DEADLINE);
        sandbox_agents::warm_up(&server, &directory);
    });
}

/// Notes that the server is of this boot too: it came over from the last one, asleep. A record of this boot stays as
/// it is: its keeper may be of the earlier version that wrote it.
fn keep(files: &SandboxFiles, record: &mut DaemonRecord, up: &Up) -> Result<()> {
    if record.boot_id != up.boot_id {
        record.set_boot(&up.boot_id, &up.guest_boot);
        write_record(&files.daemon(), record)?;
    }
    Ok(())
}

fn reachable(record: &DaemonRecord) -> Daemon {
    Daemon { port: record.port, password: record.password.clone() }
}

/// How long a server may take to answer.
fn deadline() -> Duration {
    #[cfg(debug_assertions)]
    if let Some(seconds) = std::env::var(SHORTER).ok().and_then(|text| text.parse().ok()) {
        return Duration::from_secs(seconds);
    }
    DEADLINE
}

struct Waiter<'a> {
    context: &'a Context<'a>,
    up: &'a Up,
    profile: &'static DaemonProfile,
}

impl Waiter<'_> {
    fn healthy(&self, record: &DaemonRecord) -> Result<(), ServerError> {
        let dial = || self.context.runtime.dial(&self.up.name, record.port);
        let server = Server::new(self.profile, Box::new(dial), &record.password, PATIENCE);
        let health = health(&server)?;
        if health.healthy {
            return Ok(());
        }
        let path = self.profile.health_path.to_string();
        Err(ServerError::Malformed { path, problem: "it says that it is not healthy".into() })
    }

    /// Until it answers, ends, or the deadline passes; the error says which, as a sentence.
    fn wait(&self, process: &Process<'_>, record: &DaemonRecord) -> Result<(), String> {
        let step = self.context.reporter.begin("waiting for the agent's server");
        let begin = Instant::now();
        let mut looked = begin;
        loop {
            let problem = match self.healthy(record) {
                Ok(()) => {
                    step.finish(None);
                    return Ok(());
                }
                Err(error) => error.to_string(),
            };
            if begin.elapsed() > deadline() || self.context.reporter.cancelled() {
                return Err(problem);
            }
            if looked.elapsed() > LOOK {
                looked = Instant::now();
                if process.has_ended().map_err(|error| error.to_string())? {
                    return Err("it ended by itself".into());
                }
            }
            std::thread::sleep(PAUSE);
        }
    }
}

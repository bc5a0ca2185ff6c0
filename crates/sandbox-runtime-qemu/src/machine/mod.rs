//! The machine process: one per running sandbox. It owns the guest link and the processes of a boot.
//!
//! ```text
//!          lock taken            guest program answered       order, idle, SIGTERM
//! (start) ───────────► starting ───────────────────────► running ───────────────► draining ──► stopped
//!                      (or waking, where memory is saved)                        (or falling asleep)
//!                         │  boot failed: next accelerator,   │ a part died
//!                         │  or once more                     ▼
//!                         └────────────────────────────────► crashed
//! ```
//!
//! Rules: the lock is held from before the first part starts until the process ends, and is the only
//! proof of life. Every part dies with this process (`PR_SET_PDEATHSIG`). One task alone changes the
//! state; clients only send it orders.

mod boot;
mod config;
mod console;
mod end;
mod identity;
mod life;
mod link;
mod monitor;
mod part_end;
mod parts;
mod qemu_command;
mod said;
mod serve;
mod sleep;
mod spawn;
mod start;
mod starting;
mod wake;

use std::io::{Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustix::process::DumpableBehavior;
use sandbox_guest_client::ports::{self, Ports};
use sandbox_model::Status;
use sandbox_runtime::RuntimeError;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Notify, mpsc, watch};

pub use config::{Accel, AccelChoice, MachineConfig, StartReport};
pub use console::tail;
pub use spawn::leave_session;

use crate::error::from_state;
use crate::files::MachineFiles;
use life::Life;
use parts::Parts;
use serve::{Ended, Order, Phase, Served};
use start::Started;
use starting::{CallOff, Start, until_started};

/// How long a guest may take to end when nobody said how long.
const GRACE: Duration = Duration::from_secs(10);

/// Runs one machine in the sandbox folder `dir`, from configuration on standard input to power-off.
///
/// Standard output carries one [`StartReport`]; standard error is the machine's log.
pub fn run(dir: &Path) -> Result<(), RuntimeError> {
    leave_session()?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let config: MachineConfig = serde_json::from_str(&text)
        .map_err(|error| RuntimeError::other(format!("machine configuration: {error}")))?;
    drop(text);
    if config.secrets.is_some() || config.proxies.is_some() {
        // In no core file, and read by no other process of this user.
        rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
            .map_err(std::io::Error::from)?;
    }
    let files = MachineFiles::new(dir);
    let Some(life) = Life::begin(&files)? else {
        report(&StartReport::Taken);
        return Ok(());
    };
    let listener = sandbox_state::bind_socket(&files.socket()).map_err(from_state)?;
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(machine(&files, &config, life, listener));
    // Clients still connected see their connections close with the process, after the last word.
    ended.map(|(life, problem)| life.end(problem.as_deref()))
}

async fn machine(
    files: &MachineFiles,
    config: &MachineConfig,
    mut life: Life,
    listener: std::os::unix::net::UnixListener,
) -> Result<(Life, Option<String>), RuntimeError> {
    let (phase, phases) = watch::channel(Phase::Starting);
    let (accel, accels) = watch::channel(Accel::Tcg);
    let (sender, mut orders) = mpsc::channel(16);
    let served = Arc::new(Served {
        phase: phases,
        orders: sender,
        boot_id: format!("{:032x}", rand::random::<u128>()),
        guest_boot: OnceLock::new(),
        accel: accels,
        clients: AtomicU32::new(0),
        told: Notify::new(),
        ports: Ports::default(),
        values: tokio::sync::Mutex::default(),
    });
    tokio::spawn(serve::serve(tokio::net::UnixListener::from_std(listener)?, Arc::clone(&served)));
    let mut terminate = signal(SignalKind::terminate())?;

    let published = match ports::bind(&config.spec.ports) {
        Ok(published) => published,
        Err(problem) => {
            phase.send_replace(Phase::Ending(problem.clone()));
            report(&StartReport::Failed { problem: problem.clone(), log: String::new() });
            return Ok((life, Some(problem)));
        }
    };
    let (fragile, fragility) = watch::channel(false);
    let starting = start::start(files, config, &fragile);
    let host_ends = async {
        terminate.recv().await;
    };
    let called_off =
        || StartReport::Failed { problem: "it was stopped while it started".into(), log: String::new() };
    let (booted, early) = match until_started(starting, fragility, &mut orders, host_ends).await {
        Start::Over(booted, early) => (booted, early),
        Start::Dropped(done) => {
            report(&called_off());
            drop(published);
            served.tell(done, Ended::by_force()).await;
            return Ok((life, None));
        }
    };
    let Started { mut parts, link, accel: used, notes, woken } = match booted {
        Ok(booted) => booted,
        Err(problem) => {
            phase.send_replace(Phase::Ending(problem.clone()));
            report(&StartReport::Failed { problem: problem.clone(), log: tail(&files.console_log(), 20) });
            return Ok((life, Some(problem)));
        }
    };
    accel.send_replace(used);
    let _ = served.guest_boot.set(parts.ram.boot.clone());
    let cause = if let Some(early) = early {
        report(&called_off());
        Cause::Early(early)
    } else {
        life.say(&Status::Running);
        if config.secrets.is_some() {
            *served.values.lock().await = parts.network.as_mut().and_then(|network| network.values.take());
        }
        served.ports.serve(&config.spec.ports, published, &link).await;
        phase.send_replace(Phase::Running(link.clone()));
        report(&StartReport::Ready { accel: used, notes, woken });
        until_ended(files, config, &served, &mut parts, &mut orders, &mut terminate).await
    };
    life.say(&Status::Draining);
    phase.send_replace(Phase::Ending("the sandbox is stopping".into()));
    let (how, done) = match cause {
        Cause::Part(problem) => {
            parts.end().await;
            discard_memory(files);
            served.ports.end().await;
            return Ok((life, problem));
        }
        Cause::Order(Order::Kill { done }) => (None, Some(done)),
        Cause::Order(Order::Stop { grace_millis, sleep, done }) => {
            (Some((Duration::from_millis(grace_millis), sleep)), Some(done))
        }
        Cause::Early(CallOff { grace, sleep, done }) => (Some((grace, sleep)), done),
        Cause::Idle => (Some((GRACE, config.spec.sleep)), None),
        Cause::HostEnds => (Some((GRACE, false)), None),
    };
    let ended = match how {
        None => Ended::by_force(),
        // A kill that comes while the guest takes its time cuts it short.
        Some((grace, sleep)) => tokio::select! {
            ended = end::end(files, config, &link, &mut parts, used, grace, sleep) => ended,
            Some(()) = kill_order(&mut orders) => Ended::by_force(),
        },
    };
    if ended != Ended::Asleep {
        parts.end().await;
        discard_memory(files);
    }
    served.ports.end().await;
    served.tell(done, ended).await;
    Ok((life, None))
}

/// Serves until there is a reason to end.
async fn until_ended(
    files: &MachineFiles,
    config: &MachineConfig,
    served: &Served,
    parts: &mut Parts,
    orders: &mut mpsc::Receiver<Order>,
    terminate: &mut Signal,
) -> Cause {
    tokio::select! {
        problem = part_ended(files, parts) => Cause::Part(problem),
        Some(order) = orders.recv() => Cause::Order(order),
        () = idle(&served.clients, config.spec.idle_timeout) => {
            tracing::info!("no client for {:?}: stopping", config.spec.idle_timeout);
            Cause::Idle
        }
        _ = terminate.recv() => Cause::HostEnds,
    }
}

/// The memory of a machine that ended for good is only in the way.
fn discard_memory(files: &MachineFiles) {
    if let Err(error) = crate::memory::forget(files) {
        tracing::warn!("cannot remove the memory's file: {error}");
    }
}

enum Cause {
    /// A part is gone; the problem, unless the guest powered itself off.
    Part(Option<String>),
    Order(Order),
    /// It was called off while it woke.
    Early(CallOff),
    /// Nobody needs it.
    Idle,
    HostEnds,
}

/// The next kill order. Further stop orders wait for the end like the first one's sender does.
async fn kill_order(orders: &mut mpsc::Receiver<Order>) -> Option<()> {
    loop {
        if let Order::Kill { .. } = orders.recv().await? {
            return Some(());
        }
    }
}

/// Waits until QEMU, a share server or the bridge ends.
async fn part_ended(files: &MachineFiles, parts: &mut Parts) -> Option<String> {
    let mut watched = parts.watched();
    let first = watched.first().await;
    let end = watched.reason(first).await;
    let powered_off = end.is_qemu() && end.status.as_ref().is_ok_and(std::process::ExitStatus::success);
    if !powered_off {
        return Some(end.describe("unexpectedly"));
    }
    if tail(&files.console_log(), 20).contains("Kernel panic") {
        return Some("the guest's kernel panicked".into());
    }
    tracing::info!("the guest powered itself off");
    None
}

/// Returns when there has been no client for `timeout`; never when that is zero.
async fn idle(clients: &AtomicU32, timeout: Duration) {
    if timeout.is_zero() {
        return std::future::pending().await;
    }
    let mut since = Instant::now();
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        if clients.load(Ordering::Relaxed) > 0 {
            since = Instant::now();
        } else if since.elapsed() >= timeout {
            return;
        }
    }
}

/// Tells the starter, who may be gone.
fn report(report: &StartReport) {
    let mut line = serde_json::to_string(report).unwrap_or_default();
    line.push('\n');
    let mut stdout = std::io::stdout();
    if let Err(error) = stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush()) {
        tracing::debug!("nobody waits for the start report: {error}");
    }
}

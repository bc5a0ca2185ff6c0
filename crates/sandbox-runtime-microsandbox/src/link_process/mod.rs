//! The link process: at most one per running sandbox. It holds the one link into the guest, and gives every other
//! process streams of it: to begin an `msb exec` takes longer than most commands.
//!
//! ```text
//! program ─┐
//! program ─┼─ link.sock ──► link process ══ msb exec: one link ══► guest program
//! keeper  ─┘
//! ```
//!
//! It also listens on the ports of this computer that lead into the guest: connections are streams of that link.
//!
//! Rules: nothing but those ports depends on it. Where it is not, does not answer, or speaks with another version's
//! guest program, whoever wants a stream opens a link of his own; where it is not, he also begins another one, and has it
//! open the ports again. Its lock is held for as long as it lives. It ends with the machine;
//! and a link that nobody uses is closed, for `msb` takes a sandbox with an open one to be in use, for ever.

mod begin;
mod carriers;
mod client;
mod detach;
mod serve;

use std::fs::Permissions;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::time::Duration;

use fs_err as fs;
use sandbox_model::SandboxName;
use sandbox_runtime::RuntimeError;
use sandbox_state::{Lock, LockMode, MsbFiles};
use serde::{Deserialize, Serialize};

pub use begin::{begin, begin_missing, by_msb, kept_by_msb};
pub use client::{AT_THE_NEXT_START, SharedLink, change_ports, end};

use crate::error::from_state;
use crate::files::Files;

/// How long the one before may take to leave.
const LEAVES_WITHIN: Duration = Duration::from_secs(10);

/// What a link process is told on its standard input, as JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LinkConfig {
    /// The private runtime's home.
    pub home: PathBuf,
    pub name: SandboxName,
    /// The verified `msb`.
    pub msb: PathBuf,
    /// The folder of the guest program, among those that the sandbox sees.
    pub guest_program: String,
    /// For the first word over a new link.
    pub patience: Duration,
    /// A link that nobody used for so long is closed.
    pub rests_after: Duration,
}

/// Runs one link process, from its configuration on standard input to the end of the machine. Standard error is its log.
pub fn run() -> Result<(), RuntimeError> {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    std::env::set_current_dir("/")?;
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let config: LinkConfig = serde_json::from_str(&text)
        .map_err(|error| RuntimeError::other(format!("configuration of a link process: {error}")))?;
    let files = Files { home: MsbFiles { dir: config.home.clone() } };
    let paths = files.sandbox(&config.name);
    let Some(lock) = lock(paths.link_lock())? else { return Ok(()) };
    let listener = sandbox_state::bind_socket(&paths.link_socket()).map_err(from_state)?;
    fs::set_permissions(paths.link_socket(), Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(serve::serve(config, files, listener));
    // With the lock still held, so that it is nobody else's.
    let removed = fs::remove_file(paths.link_socket());
    drop(lock);
    // Not waiting for whoever waits for another lock.
    runtime.shutdown_background();
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => ended.and(Err(error.into())),
        _ => ended,
    }
}

/// Makes no file: the folder may be one that is removed just now. `None` where another lives, and goes on.
fn lock(path: PathBuf) -> Result<Option<Lock>, RuntimeError> {
    let (sender, taken) = channel();
    std::thread::spawn(move || sender.send(Lock::take_existing(&path, LockMode::Exclusive, "link")));
    match taken.recv_timeout(LEAVES_WITHIN) {
        Ok(taken) => taken.map_err(from_state),
        Err(_) => Ok(None),
    }
}

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sandbox_state::{KeeperFiles, make_private_dir};
use serde::{Deserialize, Serialize};

use crate::journal;
use crate::{ClientError, KeeperError};

/// A keeper that does not say that it is ready within this time is given up.
const PATIENCE: Duration = Duration::from_secs(30);

/// The one line that a new keeper writes to its stdout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "ready")]
pub enum Ready {
    /// Clients can lease.
    Serving,
    /// Another keeper has the sandbox.
    AlreadyKept,
    /// The sandbox does not run.
    NothingToKeep,
    /// It has ended without keeping anything.
    Failed {
        /// Why, as a sentence for people.
        problem: String,
    },
}

impl Ready {
    pub(crate) fn write(&self, to: &mut dyn Write) {
        // Whoever started this keeper may be gone; the sandbox still wants watching.
        let line = serde_json::to_string(self).unwrap_or_default();
        let _ = writeln!(to, "{line}").and_then(|()| to.flush());
    }

    pub(crate) fn failed(to: &mut dyn Write, error: KeeperError) -> KeeperError {
        Self::Failed { problem: error.to_string() }.write(to);
        error
    }
}

/// Leaves the terminal's session, so that neither its Ctrl-C nor its end reaches this process, and the folder
/// it was started in. The first thing a keeper's process does.
pub fn leave_terminal() {
    // It fails for the leader of a process group, which has no terminal to leave.
    let _ = rustix::process::setsid();
    let _ = std::env::set_current_dir("/");
}

/// Starts a keeper's process and waits for its [`Ready`].
///
/// `command` is the program with the words that make it a keeper; it gets `config` on its stdin, as JSON,
/// and `keeper.log` as its stderr. It outlives the caller.
pub fn spawn(
    command: &mut Command,
    config: &impl Serialize,
    files: &KeeperFiles,
) -> Result<Ready, ClientError> {
    make_private_dir(&files.dir)?;
    let config = serde_json::to_vec(config).map_err(std::io::Error::from)?;
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(journal::open(&files.log)?);
    let not_started = |problem: String| ClientError::NotStarted { problem, log: journal::tail(&files.log) };
    let mut child = command.spawn().map_err(|error| not_started(error.to_string()))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A keeper that dies at once closes it; what it said is in its log.
        let _ = stdin.write_all(&config);
    }
    let ready = child.stdout.take().ok_or("no pipe".to_string()).and_then(|stdout| hear(stdout, &child));
    if !matches!(ready, Ok(Ready::Serving | Ready::AlreadyKept | Ready::NothingToKeep)) {
        // What has failed shall not begin to keep later, when nobody counts on it.
        let _ = child.kill();
    }
    // Reaped whenever it ends, for as long as the caller lives.
    std::thread::spawn(move || child.wait());
    ready.map_err(not_started)
}

fn hear(stdout: ChildStdout, child: &Child) -> Result<Ready, String> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::new(&stdout, PollFlags::IN)], Some(&timeout)) {
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(std::io::Error::from(error).to_string()),
            Ok(0) => return Err(format!("process {} said nothing for {left:?}", child.id())),
            Ok(_) => break,
        }
    }
    // The line is written at once, so it is read at once.
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).map_err(|error| error.to_string())?;
    if line.is_empty() {
        return Err("it ended at once".into());
    }
    serde_json::from_str(&line).map_err(|error| format!("{error} in {line:?}"))
}

//! `run --serve-only`: the agent's server for other clients of this computer.

use std::io::Read;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use rustix::fs::{FileType, fstat};
use rustix::termios::isatty;
use sandbox_lifecycle::{AgentProfile, Context, Daemon, Up};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::CommandResult;
use crate::app::App;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::terminal::Interruptible;

/// Why it is over.
enum End {
    /// Ctrl-D, or a signal.
    Told,
    /// Nobody watches the sandbox any more.
    SandboxGone,
}

/// Says where the server is, and holds the sandbox until it is told to end.
pub fn serve(
    app: &App,
    context: &Context<'_>,
    up: &Up,
    daemon: &Daemon,
    profile: &AgentProfile,
    interruptible: Interruptible,
) -> CommandResult {
    let (ends, ended) = channel();
    // First: a signal in the next moment shall not find us unprepared.
    listen(ends.clone())?;
    drop(interruptible);
    let served = sandbox_lifecycle::serve(Arc::clone(&context.runtime), up, daemon)?;
    let user = profile.daemon.as_ref().map_or("", |daemon| daemon.username);
    let lines =
        format!("address   http://{}\nuser      {user}\npassword  {}", served.address, daemon.password);
    app.out.line(&lines)?;
    let how = if isatty(std::io::stdin()) { "Ctrl-D or Ctrl-C ends it" } else { "SIGTERM ends it" };
    app.console.info(&format!("{} is served in {}; {how}", profile.name, up.guest_dir));
    let mut lease = up.lease.try_clone()?;
    let gone = ends.clone();
    thread::Builder::new().name("lease".into()).spawn(move || {
        lease.wait_for_end();
        let _ = gone.send(End::SandboxGone);
    })?;
    if stdin_can_end() {
        thread::Builder::new().name("stdin".into()).spawn(move || {
            let mut bytes = [0; 1024];
            while std::io::stdin().read(&mut bytes).is_ok_and(|count| count > 0) {}
            let _ = ends.send(End::Told);
        })?;
    }
    match ended.recv() {
        Ok(End::Told) | Err(_) => Ok(Exit::SUCCESS),
        Ok(End::SandboxGone) => Err(CommandError::new(format!("sandbox `{}` was stopped", up.name))
            .hint("`agents-sandbox logs keeper` shows why")),
    }
}

/// Somebody may close it: a terminal, or a pipe from another program. What a service manager gives
/// (`/dev/null`, or nothing) is at its end from the beginning, and that means nothing.
fn stdin_can_end() -> bool {
    let stdin = std::io::stdin();
    if isatty(&stdin) {
        return true;
    }
    let kind = fstat(stdin.as_fd()).map(|stat| FileType::from_raw_mode(stat.st_mode));
    matches!(kind, Ok(FileType::Fifo | FileType::Socket))
}

fn listen(ends: Sender<End>) -> std::io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    thread::Builder::new().name("signals".into()).spawn(move || {
        for _ in signals.forever() {
            if ends.send(End::Told).is_err() {
                return;
            }
        }
    })?;
    Ok(())
}

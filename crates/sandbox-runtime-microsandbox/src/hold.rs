//! A client that wants nothing but that the sandbox stays up.

use std::io;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::Builder;
use std::time::Duration;

use sandbox_model::SandboxName;

use crate::call::Msb;
use crate::command;
use crate::files::Files;
use crate::machine::{self, Seen};

/// It makes one short call now and then.
const STACK: usize = 1 << 20;

/// Keeps the runtime's own idle stop away for as long as it lives.
#[derive(Debug)]
pub struct Hold {
    /// Ends the thread with this value.
    _lives: Sender<()>,
}

/// Tells `msb` often enough that somebody is there. `idle` is the runtime's own idle timeout.
pub fn hold(files: &Files, msb: Msb, name: &SandboxName, idle: Duration) -> io::Result<Hold> {
    let every = (idle / 3).clamp(Duration::from_secs(1), Duration::from_mins(10));
    let (home, paths, name) = (files.home.dir.clone(), files.sandbox(name), name.clone());
    let (lives, end) = channel::<()>();
    Builder::new().name("hold".into()).stack_size(STACK).spawn(move || {
        while end.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
            if machine::look(&home, &paths, &name) == Seen::AtRest {
                continue;
            }
            if let Err(error) = msb.run(&command::touch(&name), msb.patience.ask) {
                tracing::debug!("{error}");
            }
        }
    })?;
    Ok(Hold { _lives: lives })
}

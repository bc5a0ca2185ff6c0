use std::io::IsTerminal;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sandbox_model::ExitStatus;
use sandbox_runtime::{ExecSession, RuntimeError};

use super::forward::{Control, forward};
use super::modes::ScreenModes;
use super::pump::pump;
use super::raw::RawMode;
use super::signals::listen;
use super::write::write_all;
use super::{stdin, terminal_size};

/// A terminal that takes nothing any more is not waited for longer than this.
const STUCK: Duration = Duration::from_millis(300);

/// What of the user's is connected to the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Streams {
    /// The command runs on a terminal.
    pub tty: bool,
    /// Input is passed on; otherwise the command has none.
    pub stdin: bool,
    /// The detach key leaves, and is not passed on.
    pub detach: bool,
}

/// How an attachment ended.
#[derive(Debug)]
pub enum Ended {
    Exited(ExitStatus),
    /// We were told to leave by this signal.
    Signal(i32),
    /// The user pressed the detach key.
    Detached,
    /// Nobody reads our output any more.
    ReaderGone,
    /// The sandbox went away.
    Lost(RuntimeError),
}

/// Connects the command to the user until one of them ends. Whatever happens, the terminal is as it was
/// before when this returns; the command is hung up unless it has exited.
pub fn attach(session: ExecSession, streams: Streams) -> Result<Ended, RuntimeError> {
    let ExecSession { mut input, output, .. } = session;
    let (events, ended) = channel();
    let control = forward(input.try_clone()?)?;
    let listening = listen(streams.tty, control.clone(), events.clone())?;
    let raw = (streams.tty && streams.stdin).then(RawMode::enter).transpose()?;
    if let Some(size) = terminal_size().filter(|_| streams.tty) {
        // It may have changed since the command was started with the former size.
        let _ = control.send(Control::Resize(size));
    }
    let feeding = if streams.stdin {
        Some(stdin::feed(input.try_clone()?, streams, events.clone())?)
    } else {
        if !streams.tty {
            input.close()?;
        }
        None
    };
    let screen = Arc::new(Mutex::new(ScreenModes::default()));
    pump(output, Arc::clone(&screen), events)?;

    let end = ended.recv().unwrap_or(Ended::ReaderGone);

    drop(feeding);
    if streams.tty && std::io::stdout().is_terminal() {
        // Somewhere in a line of the command; what follows is a message of ours.
        let fresh_line = matches!(end, Ended::Detached | Ended::Lost(_));
        reset(&screen, fresh_line);
    }
    drop(raw);
    drop(listening);
    Ok(end)
}

/// Switches back what the command left switched, unless the terminal is stuck.
fn reset(screen: &Mutex<ScreenModes>, fresh_line: bool) {
    let until = Instant::now() + STUCK;
    while Instant::now() < until {
        if let Ok(screen) = screen.try_lock() {
            let mut bytes = screen.reset();
            if fresh_line && screen.is_within_line() {
                bytes.extend(b"\r\n");
            }
            let _ = write_all(std::io::stdout(), &bytes);
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

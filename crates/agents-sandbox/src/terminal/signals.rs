use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Mutex, PoisonError};
use std::thread;

use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use super::attach::Ended;
use super::forward::Control;
use super::{raw, terminal_size};

/// So many signals to end, and we leave even if the command does not.
const PATIENCE: u32 = 3;

/// What a signal to us means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    Resize,
    Continue,
    /// Pass it on to the command.
    Forward,
    /// End here; the guest hangs up the command.
    Leave,
}

/// With a terminal the command gets its signals as keys, and signals mean us; on pipes they mean the command.
const fn meaning(signal: i32, tty: bool) -> Meaning {
    match signal {
        SIGWINCH => Meaning::Resize,
        SIGCONT => Meaning::Continue,
        SIGHUP => Meaning::Leave,
        SIGTERM | SIGQUIT if tty => Meaning::Leave,
        _ => Meaning::Forward,
    }
}

/// Whom signals go to; without anyone they do what they do by default.
struct Listener {
    tty: bool,
    control: Sender<Control>,
    events: Sender<Ended>,
    /// Signals to end that were passed on.
    asked: u32,
}

static LISTENER: Mutex<Option<Listener>> = Mutex::new(None);

/// Signals are ours while this lives.
#[derive(Debug)]
pub struct Listening(());

impl Drop for Listening {
    fn drop(&mut self) {
        *LISTENER.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// One command after another can listen; the thread that hears the signals is started for the first.
pub fn listen(tty: bool, control: Sender<Control>, events: Sender<Ended>) -> std::io::Result<Listening> {
    static STARTED: AtomicBool = AtomicBool::new(false);
    let listener = Listener { tty, control, events, asked: 0 };
    *LISTENER.lock().unwrap_or_else(PoisonError::into_inner) = Some(listener);
    let listening = Listening(());
    if !STARTED.swap(true, Ordering::SeqCst) {
        let mut signals =
            Signals::new([SIGWINCH, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2])?;
        thread::Builder::new().name("signals".into()).spawn(move || {
            for signal in signals.forever() {
                let mut listener = LISTENER.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(listener) = listener.as_mut() {
                    listener.hear(signal);
                } else {
                    drop(listener);
                    let _ = emulate_default_handler(signal);
                }
            }
        })?;
    }
    Ok(listening)
}

impl Listener {
    fn hear(&mut self, signal: i32) {
        match meaning(signal, self.tty) {
            Meaning::Leave => {
                let _ = self.events.send(Ended::Signal(signal));
            }
            Meaning::Forward => {
                let _ = self.control.send(Control::Signal(signal));
                self.asked += u32::from(matches!(signal, SIGINT | SIGTERM));
                if self.asked >= PATIENCE {
                    let _ = self.events.send(Ended::Signal(signal));
                }
            }
            Meaning::Resize | Meaning::Continue => {
                if signal == SIGCONT && self.tty {
                    let _ = raw::reenter();
                }
                if let Some(size) = terminal_size().filter(|_| self.tty) {
                    let _ = self.control.send(Control::Resize(size));
                }
            }
        }
    }
}

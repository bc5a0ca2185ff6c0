use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
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

/// Signals are ours while this lives; afterwards they do what they do by default.
#[derive(Debug)]
pub struct Listening(Arc<AtomicBool>);

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

pub fn listen(tty: bool, control: Sender<Control>, events: Sender<Ended>) -> std::io::Result<Listening> {
    let mut signals = Signals::new([SIGWINCH, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2])?;
    let ours = Arc::new(AtomicBool::new(true));
    let listening = Listening(Arc::clone(&ours));
    thread::Builder::new().name("signals".into()).spawn(move || {
        let mut asked = 0;
        for signal in signals.forever() {
            if !ours.load(Ordering::SeqCst) {
                let _ = emulate_default_handler(signal);
                continue;
            }
            match meaning(signal, tty) {
                Meaning::Leave => {
                    let _ = events.send(Ended::Signal(signal));
                }
                Meaning::Forward => {
                    let _ = control.send(Control::Signal(signal));
                    asked += u32::from(matches!(signal, SIGINT | SIGTERM));
                    if asked >= PATIENCE {
                        let _ = events.send(Ended::Signal(signal));
                    }
                }
                Meaning::Resize | Meaning::Continue => {
                    if signal == SIGCONT && tty {
                        let _ = raw::reenter();
                    }
                    if let Some(size) = terminal_size().filter(|_| tty) {
                        let _ = control.send(Control::Resize(size));
                    }
                }
            }
        }
    })?;
    Ok(listening)
}

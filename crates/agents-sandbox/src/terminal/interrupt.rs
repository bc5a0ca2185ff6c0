//! Ctrl-C and its like while something is prepared: what is under way is told to end, so that it can clean
//! up after itself, and the program leaves with it.

use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use signal_hook::low_level::emulate_default_handler;

use crate::exit::Exit;

/// What is under way has this long to end by itself.
const PATIENCE: Duration = Duration::from_secs(3);

static SIGNAL: AtomicI32 = AtomicI32::new(0);

/// The exit code, once someone wanted the program to end.
pub fn interrupted() -> Option<Exit> {
    match SIGNAL.load(Ordering::SeqCst) {
        0 => None,
        signal => Some(Exit::from_signal(u8::try_from(signal).unwrap_or(u8::MAX))),
    }
}

/// While this lives, signals that end a program are ours.
#[derive(Debug)]
pub struct Interruptible(Handle);

impl Drop for Interruptible {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// On the first signal `give_up` is called, from another thread, and what is under way sees
/// [`interrupted`]. On the second, or when nothing has ended for a while, the program ends at once.
pub fn interruptible(give_up: impl FnOnce() + Send + 'static) -> std::io::Result<Interruptible> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT])?;
    let guard = Interruptible(signals.handle());
    thread::Builder::new().name("interrupt".into()).spawn(move || {
        let mut give_up = Some(give_up);
        for signal in signals.forever() {
            match give_up.take() {
                Some(give_up) => {
                    SIGNAL.store(signal, Ordering::SeqCst);
                    thread::spawn(move || {
                        thread::sleep(PATIENCE);
                        let _ = emulate_default_handler(signal);
                    });
                    give_up();
                }
                None => drop(emulate_default_handler(signal)),
            }
        }
    })?;
    Ok(guard)
}

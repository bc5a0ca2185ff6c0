//! Raw mode, and the ways out of it: the guard's end, a panic, and a signal that makes the guard end.

use std::io;
use std::sync::{Mutex, Once, PoisonError};

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};

/// The terminal as it was, while it is raw.
static SAVED: Mutex<Option<Termios>> = Mutex::new(None);

/// The terminal on stdin is raw for as long as this lives.
#[derive(Debug)]
pub struct RawMode(());

impl RawMode {
    pub fn enter() -> io::Result<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let former = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                // The message shall be readable, and the shell usable.
                restore();
                former(panic);
            }));
        });
        let terminal = tcgetattr(io::stdin())?;
        *SAVED.lock().unwrap_or_else(PoisonError::into_inner) = Some(terminal);
        reenter()?;
        Ok(Self(()))
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        restore();
    }
}

/// Makes the terminal raw again: a shell that continues us after a stop has put its own modes back.
pub fn reenter() -> io::Result<()> {
    let saved = SAVED.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if let Some(mut terminal) = saved {
        terminal.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Now, &terminal)?;
    }
    Ok(())
}

/// Puts the terminal back. Harmless to repeat. A terminal that is gone cannot be put back.
fn restore() {
    if let Some(terminal) = SAVED.lock().unwrap_or_else(PoisonError::into_inner).take() {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &terminal);
    }
}

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use dialoguer::Confirm;
use signal_hook::consts::SIGINT;
use signal_hook::low_level::unregister;

/// Somebody sees a question and can answer it.
pub fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks on stderr, where `no` is what Enter alone means. `None` is Ctrl-C or the end of the input.
///
/// The answer counts only with Enter, so that a key typed ahead for something else agrees to nothing.
pub fn confirm(question: &str) -> io::Result<Option<bool>> {
    asked(|| {
        Confirm::new().with_prompt(question).default(false).wait_for_newline(true).report(true).interact()
    })
}

/// `None` is Ctrl-C or the end of the input.
pub(super) fn asked<T>(ask: impl FnOnce() -> dialoguer::Result<T>) -> io::Result<Option<T>> {
    // The prompt raises SIGINT at a Ctrl-C; with its own action the cursor would stay hidden.
    let interrupt = signal_hook::flag::register(SIGINT, Arc::new(AtomicBool::new(false)))?;
    let answer = ask();
    unregister(interrupt);
    match answer.map_err(io::Error::from) {
        Ok(answer) => Ok(Some(answer)),
        Err(error) => {
            let _ = dialoguer::console::Term::stderr().show_cursor();
            let _ = writeln!(io::stderr());
            match error.kind() {
                io::ErrorKind::Interrupted | io::ErrorKind::UnexpectedEof => Ok(None),
                _ => Err(error),
            }
        }
    }
}

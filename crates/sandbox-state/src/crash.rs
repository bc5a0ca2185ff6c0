//! Places where a process may die, so that tests can make it die at each of them. Only in builds for
//! development; in others nothing is left of it.

/// Counts one place. The process ends here, as by a power cut, when it is the one that was armed.
#[cfg(not(debug_assertions))]
pub const fn point(_place: &str) {}

/// Nothing to arm.
#[cfg(not(debug_assertions))]
pub const fn arm() {}

#[cfg(debug_assertions)]
pub use armed::{arm, point};

#[cfg(debug_assertions)]
mod armed {
    use std::io::Write;
    use std::sync::atomic::{AtomicI64, Ordering};

    use rustix::process::{Signal, getpid, kill_process};

    /// How many places are passed before the one that is the last; 1 is the very first.
    const VARIABLE: &str = "AGENTS_SANDBOX_KILL_AT";

    static LEFT: AtomicI64 = AtomicI64::new(0);

    /// Arms this process, and no other that it starts, by the variable.
    pub fn arm() {
        let number = std::env::var(VARIABLE).ok().and_then(|text| text.parse().ok());
        LEFT.store(number.unwrap_or(0), Ordering::SeqCst);
    }

    /// Counts one place. The process ends here, as by a power cut, when it is the one that was armed.
    pub fn point(place: &str) {
        if LEFT.load(Ordering::SeqCst) > 0 && LEFT.fetch_sub(1, Ordering::SeqCst) == 1 {
            let _ = writeln!(std::io::stderr(), "killed: {place}");
            let _ = kill_process(getpid(), Signal::KILL);
        }
    }
}

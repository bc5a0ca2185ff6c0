//! Places where a process may die, so that tests can make it die at each of them. Only in builds for
//! development; in others nothing is left of it.

/// Counts one place. The process ends here, as by a power cut, when it is the one that was armed.
#[cfg(not(debug_assertions))]
pub const fn point(_place: &str) {}

/// Nothing to arm.
#[cfg(not(debug_assertions))]
pub const fn arm() {}

/// Nothing to arm.
#[cfg(not(debug_assertions))]
pub const fn arm_by_name() {}

#[cfg(debug_assertions)]
pub use armed::{arm, arm_by_name, point};

#[cfg(debug_assertions)]
mod armed {
    use std::io::Write;
    use std::sync::Mutex;

    use rustix::process::{Signal, getpid, kill_process};

    /// Which place is the last: how many are passed up to it, 1 for the very first, or its name.
    const VARIABLE: &str = "AGENTS_SANDBOX_KILL_AT";

    #[derive(Debug)]
    enum Armed {
        Count(u64),
        Name(String),
    }

    static ARMED: Mutex<Option<Armed>> = Mutex::new(None);

    /// Arms this process, and no other that it starts, by the variable.
    pub fn arm() {
        let Ok(text) = std::env::var(VARIABLE) else { return };
        if let Ok(mut armed) = ARMED.lock() {
            *armed = Some(text.parse().map_or(Armed::Name(text), Armed::Count));
        }
    }

    /// Arms a background process, where the variable has the name of a place: a count is that of the process that
    /// was called first.
    pub fn arm_by_name() {
        arm();
        if let Ok(mut armed) = ARMED.lock()
            && matches!(*armed, Some(Armed::Count(_)))
        {
            *armed = None;
        }
    }

    /// Counts one place. The process ends here, as by a power cut, when it is the one that was armed.
    pub fn point(place: &str) {
        let Ok(mut armed) = ARMED.lock() else { return };
        let dies = match &mut *armed {
            None => false,
            Some(Armed::Name(name)) => name == place,
            Some(Armed::Count(left)) => {
                *left = left.wrapping_sub(1);
                *left == 0
            }
        };
        if dies {
            let _ = writeln!(std::io::stderr(), "killed: {place}");
            let _ = kill_process(getpid(), Signal::KILL);
        }
    }
}

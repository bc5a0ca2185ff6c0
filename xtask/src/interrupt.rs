//! Ctrl-C while a chore has something to clean up.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::bench_boot::Outcome;

/// From its making on, the two signals that ask for an end are remembered, and end nothing by themselves.
/// From a terminal they also reach whatever command runs right now.
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    pub fn watch() -> io::Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&flag))?;
        }
        Ok(Self(flag))
    }

    /// Fails once somebody has asked for an end.
    pub fn check(&self) -> Outcome {
        if self.0.load(Ordering::Relaxed) { Err("interrupted".into()) } else { Ok(()) }
    }
}

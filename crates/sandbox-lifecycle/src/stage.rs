//! The steps of a run, as those who ask for details see them.

use std::fmt;
use std::time::{Duration, Instant};

use sandbox_state::crash;

use crate::Reporter;

/// One of the ten steps that every run takes, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// What nobody has used for long goes.
    AutoPrune,
    /// Whether this computer has what the runtime needs, before a sandbox is made.
    PreFlight,
    /// The runner image is built where something changed, and is in the runtime.
    Image,
    /// There is a home to mount.
    HomeVolume,
    /// The sandbox is made to fit, and runs.
    Sandbox,
    /// The agent's configuration is in the home, and the hooks of this boot have run.
    Provisioning,
    /// The agent's server answers.
    Daemon,
    /// The agent has its worktree, where one was asked for.
    Branch,
    /// The agent is on the terminal, until it ends or the terminal leaves it.
    Agent,
    /// The lease goes back: from now on the keeper decides.
    Cleanup,
}

impl Stage {
    /// In their order: a step is told as its number and how many there are.
    pub const ALL: [Self; 10] = [
        Self::AutoPrune,
        Self::PreFlight,
        Self::Image,
        Self::HomeVolume,
        Self::Sandbox,
        Self::Provisioning,
        Self::Daemon,
        Self::Branch,
        Self::Agent,
        Self::Cleanup,
    ];

    /// The word for it in messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AutoPrune => "auto-prune",
            Self::PreFlight => "pre-flight checks",
            Self::Image => "image",
            Self::HomeVolume => "home volume",
            Self::Sandbox => "sandbox",
            Self::Provisioning => "provisioning",
            Self::Daemon => "daemon",
            Self::Branch => "branch",
            Self::Agent => "agent",
            Self::Cleanup => "cleanup",
        }
    }

    /// Does the step, and says how it went and how long it took.
    pub fn run<T, E>(self, reporter: &dyn Reporter, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        crash::point(self.as_str());
        let begin = Instant::now();
        let done = work();
        self.report(reporter, if done.is_ok() { "done" } else { "failed" }, begin.elapsed());
        done
    }

    /// Says in a few words what came of the step.
    pub fn report(self, reporter: &dyn Reporter, what: &str, took: Duration) {
        reporter.verbose(&format!("step {self}: {what} ({:.3} s)", took.as_secs_f64()));
        crash::point(self.as_str());
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = *self as usize + 1;
        write!(f, "{number}/{} {}", Self::ALL.len(), self.as_str())
    }
}

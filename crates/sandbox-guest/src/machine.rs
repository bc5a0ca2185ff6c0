use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sandbox_model::GUEST_SSH_AGENT;
use sandbox_wire::BootConfig;

/// What the guest program does to the machine as a whole. All methods block.
pub trait Machine: Send + Sync + 'static {
    /// Mounts everything, switches to the new root, configures the network. Called once per boot.
    fn boot(&self, config: &BootConfig, steps: &Steps) -> Result<(), BootError>;
    /// Sets the clock, in nanoseconds since 1970.
    fn set_clock(&self, unix_nanos: u64) -> io::Result<()>;
    /// Brings everything to the disks, as before a power cut.
    fn settle(&self) -> io::Result<()>;
    /// After the memory came back from a disk: sets the clock, and ends the connections whose other side is
    /// long gone.
    fn wake(&self, unix_nanos: u64) -> io::Result<()>;
    /// Where programs find the user's ssh-agent.
    fn ssh_agent(&self) -> &'static str {
        GUEST_SSH_AGENT
    }
    /// Ends every other process (TERM, KILL after `grace`) and leaves the disks clean.
    fn shut_down(&self, grace: Duration);
}

/// The step of booting at work now, so that a step that never returns can be named.
#[derive(Debug, Default)]
pub struct Steps(Mutex<String>);

impl Steps {
    /// Names the step that begins, as in "mounting home (ext4) at /home/dev"; it ends where the next is
    /// entered.
    pub fn enter(&self, step: impl Into<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = step.into();
    }

    /// The name of the step at work; empty before the first.
    pub fn current(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Why a guest did not become a sandbox.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// `step` is what was tried, as in "mounting home (ext4) at /home/dev".
    #[error("{step}: {source}")]
    Step { step: String, source: io::Error },
    #[error("{step}: {value:?} is not {wanted}")]
    Address { step: String, value: String, wanted: &'static str },
}

use std::path::PathBuf;
use std::time::Duration;

use sandbox_model::SandboxName;
use sandbox_state::{KeeperFiles, SandboxFiles};
use serde::{Deserialize, Serialize};

use crate::Rules;

/// What a keeper is told once, as one JSON document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct KeeperConfig {
    /// The name by which the runtime is asked about it.
    pub sandbox: SandboxName,
    /// The folder of [`SandboxFiles`].
    pub dir: PathBuf,
    /// How long a sandbox stays up with nobody and nothing that holds it.
    pub auto_stop_timeout: Duration,
    /// Put it to sleep instead, where the runtime can.
    #[serde(default)]
    pub sleep: bool,
    /// Stop even while sessions work.
    pub auto_stop_on_active_sessions: bool,
    /// How often a session may have retried and still hold the sandbox.
    pub auto_stop_max_session_retries: u32,
    /// For tests; the default is what users get.
    #[serde(default)]
    pub timing: Timing,
}

/// Everything else that takes time. Only tests change it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Timing {
    /// Between two questions to the agent.
    pub ask_every: Duration,
    /// Between two looks at the sandbox.
    pub check_every: Duration,
    /// How long an agent that does not answer holds the sandbox.
    pub agent_patience: Duration,
    /// A new keeper waits at least this long for its first client.
    pub first_lease: Duration,
    /// What the guest gets to end by itself.
    pub stop_grace: Duration,
    /// How long a client may take to say what it wants.
    pub request_patience: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            ask_every: Duration::from_secs(2),
            check_every: Duration::from_secs(2),
            agent_patience: Duration::from_mins(1),
            first_lease: Duration::from_secs(5),
            stop_grace: Duration::from_secs(10),
            request_patience: Duration::from_secs(10),
        }
    }
}

impl KeeperConfig {
    /// The keeper's own, in [`KeeperConfig::dir`].
    pub fn files(&self) -> KeeperFiles {
        SandboxFiles { dir: self.dir.clone() }.keeper()
    }

    /// What [`crate::decide`] needs of it.
    pub const fn rules(&self) -> Rules {
        Rules {
            timeout: self.auto_stop_timeout,
            first_lease: self.timing.first_lease,
            stop_on_active_sessions: self.auto_stop_on_active_sessions,
            max_session_retries: self.auto_stop_max_session_retries,
            agent_patience: self.timing.agent_patience,
        }
    }
}

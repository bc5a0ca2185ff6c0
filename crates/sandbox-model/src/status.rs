use std::fmt;

use serde::{Deserialize, Serialize};

/// Where a sandbox is in its life. Computed whenever it is asked for, never stored.
///
/// ```text
///            start            ready            stop             gone
/// created ─────────► starting ─────► running ────────► draining ─────► stopped
///                       │               │  ▲                               │
///                       │ boot fails    │  └─ resume ─ paused ◄─ pause ─┐  │ start
///                       ▼               │ machine dies                  │  ▼
///                    crashed ◄──────────┘                            running / starting
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Made, and never started.
    Created,
    /// The machine is on its way up; nothing runs in it for a client yet.
    Starting,
    /// The guest answers: commands run, clients come.
    Running,
    /// On its way down: it takes no new client.
    Draining,
    /// The machine stands still, with its memory in the host's: somebody has paused it, and it takes no
    /// client.
    Paused,
    /// The machine has ended as it was told to.
    Stopped,
    /// The machine ended by itself, or never came up.
    Crashed,
    /// A word of a newer or another program: protected from pruning and never reused.
    #[serde(untagged)]
    Unknown(String),
}

impl Status {
    /// The word in tables, records and between processes; [`Status::parse`] takes it back.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Created => "created",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Draining => "draining",
            Self::Paused => "paused",
            Self::Stopped => "stopped",
            Self::Crashed => "crashed",
            Self::Unknown(word) => word,
        }
    }

    /// Takes any word: one that is not known is [`Status::Unknown`].
    pub fn parse(word: &str) -> Self {
        match word {
            "created" => Self::Created,
            "starting" => Self::Starting,
            "running" => Self::Running,
            "draining" => Self::Draining,
            "paused" => Self::Paused,
            "stopped" => Self::Stopped,
            "crashed" => Self::Crashed,
            other => Self::Unknown(other.into()),
        }
    }

    /// No live runtime: may be started, recreated or removed.
    pub const fn is_at_rest(&self) -> bool {
        matches!(self, Self::Created | Self::Stopped | Self::Crashed)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

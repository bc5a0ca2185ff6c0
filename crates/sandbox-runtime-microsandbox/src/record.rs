//! What we know of a sandbox, and its status.

use sandbox_model::{PortForward, SandboxSpec, Status};
use sandbox_runtime::RuntimeError;
use sandbox_state::{read_record, read_versioned, write_record};
use serde::{Deserialize, Serialize};

use crate::error::from_state;
use crate::files::SandboxPaths;

/// Raised when the record changes shape in a way an older program would misread.
const VERSION: u32 = 1;

/// `sandbox.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxRecord {
    pub version: u32,
    pub spec: SandboxSpec,
    /// Seconds since 1970.
    pub created: i64,
    /// Those of the spec's ports that were added while it ran.
    #[serde(default)]
    pub added_ports: Vec<PortForward>,
}

impl SandboxRecord {
    /// `created` is in seconds since 1970.
    pub fn new(spec: SandboxSpec, created: i64) -> Self {
        Self { version: VERSION, spec, created, added_ports: Vec::new() }
    }

    /// The same sandbox in a few other words.
    pub fn with(self, change: impl FnOnce(&mut SandboxSpec)) -> Self {
        let mut record = self;
        change(&mut record.spec);
        record
    }

    /// In place of the one before, in one step.
    pub fn write(&self, paths: &SandboxPaths) -> Result<(), RuntimeError> {
        write_record(&paths.record(), self).map_err(from_state)
    }

    /// `None` when there is no such sandbox.
    pub fn read(paths: &SandboxPaths) -> Result<Option<Self>, RuntimeError> {
        read_versioned(&paths.record(), VERSION).map_err(from_state)
    }
}

/// `life.json`: how the last start went. A sandbox that was never started has none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Life {
    /// A start is under way, or was interrupted.
    Starting,
    /// It came up. What became of it since, `msb` knows.
    Booted,
    /// So it did, with an outlet, which lives as long as its machine.
    Served,
    /// It did not come up.
    Failed { problem: String },
}

impl Life {
    /// Whether whatever was up when the start was over is a sandbox that may be used.
    pub const fn is_up(&self) -> bool {
        matches!(self, Self::Booted | Self::Served)
    }

    /// In place of the one before, in one step.
    pub fn write(&self, paths: &SandboxPaths) -> Result<(), RuntimeError> {
        write_record(&paths.life(), self).map_err(from_state)
    }

    /// A word that cannot be read is the word of a start that went wrong.
    pub fn read(paths: &SandboxPaths) -> Option<Self> {
        read_record(&paths.life()).unwrap_or_else(|error| Some(Self::Failed { problem: error.to_string() }))
    }
}

/// The status and, where it is `crashed`, why.
///
/// `starting` is whether somebody holds the starting lock; `msb` is the runtime's own word, where it knows
/// the sandbox. After a boot that failed `msb` says "stopped", and so it does of one that was never made. `bereft` is
/// whether its machine lives without its outlet.
pub fn status(
    life: Option<&Life>,
    starting: bool,
    msb: Option<&Status>,
    bereft: bool,
) -> (Status, Option<String>) {
    let crashed = |problem: &str| (Status::Crashed, Some(problem.to_string()));
    match (life, msb) {
        _ if starting => (Status::Starting, None),
        (None, _) => (Status::Created, None),
        // Also where its machine came up: nobody serves its network, and nobody told it what to trust.
        (Some(Life::Starting), _) => crashed("its start was interrupted"),
        // Nor does anybody here; and others could listen where the outlet did.
        (Some(Life::Served), _) if bereft => crashed("the process that serves its network has ended"),
        (Some(_), Some(word)) if !word.is_at_rest() => (word.clone(), None),
        (Some(Life::Failed { problem }), _) => crashed(problem),
        (Some(Life::Booted | Life::Served), Some(Status::Crashed)) => {
            crashed("its machine ended without being told to")
        }
        (Some(Life::Booted | Life::Served), _) => (Status::Stopped, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_combination_has_one_status() {
        let failed = Life::Failed { problem: "no disk".into() };
        let cases = [
            (None, false, None, Status::Created),
            (None, false, Some(Status::Stopped), Status::Created),
            (None, true, None, Status::Starting),
            (Some(&Life::Booted), true, Some(Status::Running), Status::Starting),
            (Some(&Life::Booted), false, Some(Status::Running), Status::Running),
            (Some(&Life::Booted), false, Some(Status::Paused), Status::Paused),
            (Some(&Life::Booted), false, Some(Status::Stopped), Status::Stopped),
            (Some(&Life::Booted), false, Some(Status::Crashed), Status::Crashed),
            (Some(&Life::Booted), false, None, Status::Stopped),
            (Some(&Life::Starting), false, Some(Status::Stopped), Status::Crashed),
            (Some(&Life::Starting), false, Some(Status::Running), Status::Crashed),
            (Some(&failed), false, Some(Status::Stopped), Status::Crashed),
            (Some(&failed), true, Some(Status::Stopped), Status::Starting),
        ];
        for (life, starting, msb, wanted) in cases {
            let (got, problem) = status(life, starting, msb.as_ref(), false);
            assert_eq!(got, wanted, "{life:?} {starting} {msb:?}");
            assert_eq!(problem.is_some(), wanted == Status::Crashed);
        }
    }

    #[test]
    fn only_what_was_served_is_bereft_of_it() {
        let of = |life: &Life, bereft| status(Some(life), false, Some(&Status::Running), bereft).0;
        assert_eq!(of(&Life::Served, true), Status::Crashed);
        assert_eq!([of(&Life::Served, false), of(&Life::Booted, true)], [Status::Running, Status::Running]);
        assert_eq!(status(Some(&Life::Served), true, None, true).0, Status::Starting);
        assert_eq!(status(Some(&Life::Served), false, None, false).0, Status::Stopped);
    }
}

use serde::{Deserialize, Serialize};

use super::store::{Store, read_json, write_json};
use crate::Result;

/// Trouble that a test asks for, kept in `faults.json` so that every process of the program meets it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default, deny_unknown_fields)]
pub struct Faults {
    /// How long a boot takes, in milliseconds.
    pub boot_millis: u64,
    /// Every boot fails with this problem.
    pub boot_fails: Option<String>,
    /// How long a machine takes to power off once its processes are gone, in milliseconds.
    pub stop_millis: u64,
    /// Every stop fails with this problem and stops nothing.
    pub stop_fails: Option<String>,
    /// No machine that runs gets other CPUs or memory, because of this problem.
    pub modify_fails: Option<String>,
    /// A machine that runs names no boot, as one that begins to end just then.
    pub boot_unnamed: bool,
}

impl Faults {
    pub(super) fn read(store: &Store) -> Result<Self> {
        Ok(read_json(&store.faults_path())?.unwrap_or_default())
    }

    pub(super) fn write(&self, store: &Store) -> Result<()> {
        write_json(&store.faults_path(), self)
    }
}

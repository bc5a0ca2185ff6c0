use std::collections::BTreeMap;

use sandbox_model::{Digest, VolumeName};
use serde::{Deserialize, Serialize};

/// `state.yaml`: what a checkout and agent have settled on. The only record of which home is current.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProjectState {
    pub home_volume: Option<VolumeName>,
    pub image_digest: Option<Digest>,
    /// Hashes of what a sandbox was created with, by kind (`env`, `network`, `mounts`, …).
    pub fingerprints: BTreeMap<String, String>,
}

/// `daemon.json`: how to reach the agent's server. Worthless after the boot it names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonRecord {
    pub boot_id: String,
    pub port: u16,
    pub password: String,
}

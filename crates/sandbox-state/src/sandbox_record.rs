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

/// `provision.json`: what was copied into the home, so that what is gone from the host goes there too.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProvisionRecord {
    /// The home that got the files.
    pub home_volume: Option<VolumeName>,
    /// A hash of each file, by its path in the home.
    pub files: BTreeMap<String, String>,
    /// The last boot whose startup hooks were run, or whose time for them has passed.
    pub hooks_boot: Option<String>,
}

/// `daemon.json`: how to reach the agent's server. Worthless after the boot it names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonRecord {
    pub boot_id: String,
    pub port: u16,
    pub password: String,
}

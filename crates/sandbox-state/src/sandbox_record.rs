use std::collections::BTreeMap;

use sandbox_model::{AgentName, Digest, VolumeName};
use serde::{Deserialize, Serialize};

// An unknown field is a newer version's: to read past it would be to write it away.

/// `state.yaml`: what a checkout and agent have settled on. The only record of which home is current.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProjectState {
    /// The home that the sandbox has, or gets when it is made again; `None` before there is one.
    pub home_volume: Option<VolumeName>,
    /// The content of the image that was last settled on. Where another is wanted, the user is asked about
    /// the home.
    pub image_digest: Option<Digest>,
    /// Hashes of what a sandbox was created with, by kind (`env`, `network`, `mounts`, …).
    pub fingerprints: BTreeMap<String, String>,
    /// Which version of the agent is wanted, is there, and was talked about.
    #[serde(skip_serializing_if = "AgentState::is_empty")]
    pub agent: AgentState,
}

/// Which version of its agent a sandbox is made with.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentState {
    /// What images are built with; `None` is the newest of the day of the build.
    pub wanted: Option<AgentVersion>,
    /// What the image that was last started holds.
    pub image: Option<ImageAgent>,
    /// The newest version that the user was asked about.
    pub offered: Option<String>,
    /// The newest version of which the user saw a line.
    pub told: Option<String>,
}

impl AgentState {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A version that was chosen, as npm names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentVersion {
    /// For example `1.18.33`.
    pub version: String,
    /// The user named it: no other is offered.
    pub pinned: bool,
}

/// The agent of one image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageAgent {
    /// The image's content, so that a newer image of the same name is read again.
    pub digest: Digest,
    /// The image's own layers brought it, not this program's recipe.
    pub users_own: bool,
    /// `None` where the image did not say one, or nothing that can be shown.
    pub version: Option<String>,
}

/// `agent-versions.json`: what npm said, by agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct VersionsRecord {
    /// An agent that was never asked about has no entry.
    pub agents: BTreeMap<AgentName, NewestAgent>,
}

/// The last that npm said about one agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NewestAgent {
    /// When npm was last asked, in seconds since 1970.
    pub asked: i64,
    /// The newest version it named, now or earlier.
    pub version: Option<String>,
}

/// `provision.json`: what was copied into the home, so that what is gone from the host goes there too.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProvisionRecord {
    /// The home that got the files.
    pub home_volume: Option<VolumeName>,
    /// A hash of each file, by its path in the home.
    pub files: BTreeMap<String, String>,
    /// The last boot whose startup hooks were run, or whose time for them has passed.
    pub hooks_boot: Option<String>,
    /// What was done once and for all on the sandbox's root disk and home, so that the checkout shows under its host
    /// path: a digest of all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_path: Option<String>,
    /// The repository's worktrees that the guest has seen to, by the names of their entries.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub worktrees: BTreeMap<String, SeenWorktree>,
}

/// A worktree as the guest last saw it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenWorktree {
    /// No other entry has it, also not a later one of the name.
    pub mark: String,
    /// The guest had it: where it is gone, it was removed there.
    pub here: bool,
}

/// `daemon.json`: how to reach the agent's server. Worthless after the boot it names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DaemonRecord {
    /// The boot of the machine in which the server was last seen, as the runtime calls it.
    pub boot_id: String,
    /// The boot of the guest, which a sandbox that slept goes on with; records of earlier versions do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest_boot: Option<String>,
    /// On the guest's loopback.
    pub port: u16,
    /// Made anew for each server: hex digits, unknown to anybody who cannot read this record.
    pub password: String,
}

impl DaemonRecord {
    /// Whether the server can live in the boot of this id, in a guest that booted as `guest_boot`.
    pub fn is_of(&self, boot_id: &str, guest_boot: &str) -> bool {
        self.guest_boot.as_deref().map_or(self.boot_id == boot_id, |known| known == guest_boot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_of_its_guests_boot() {
        let earlier = r#"{ "boot_id": "start 1", "port": 1, "password": "p" }"#;
        let mut record: DaemonRecord = serde_json::from_str(earlier).unwrap();
        assert!(record.is_of("start 1", "guest 1") && !record.is_of("start 2", "guest 1"));
        record.guest_boot = Some("guest 1".into());
        assert!(record.is_of("start 2", "guest 1") && !record.is_of("start 1", "guest 2"));
    }
}

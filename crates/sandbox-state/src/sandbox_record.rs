use std::collections::BTreeMap;

use sandbox_model::{AgentName, Digest, VolumeName};
use serde::{Deserialize, Serialize};

// An unknown field is a newer version's: to read past it would be to write it away. Two records may lose it.

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
///
/// An earlier version reads past what a newer one adds, and may write it away: then that is done once more.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProvisionRecord {
    /// The home that got the files.
    pub home_volume: Option<VolumeName>,
    /// A hash of each file, by its path in the home. Every version writes it: what has none is something else.
    pub files: BTreeMap<String, String>,
    /// The last boot whose startup hooks were run, or whose time for them has passed.
    pub hooks_boot: Option<String>,
    /// What was done once and for all on the sandbox's root disk and home, so that the checkout shows under its host
    /// path: a digest of all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_path: Option<String>,
    /// The repository's worktrees that the guest has seen to, by the names of their entries.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
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
///
/// A keeper reads it for as long as its sandbox runs, also one of an earlier version than whoever wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonRecord {
    /// The boot of the machine in which the server was last seen, as the runtime calls it.
    pub boot_id: String,
    /// The boot of the guest, which a sandbox that slept goes on with, where it is named otherwise than the start.
    /// Earlier versions do not say it, and refuse to read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest_boot: Option<String>,
    /// On the guest's loopback.
    pub port: u16,
    /// Made anew for each server: hex digits, unknown to anybody who cannot read this record.
    pub password: String,
}

impl DaemonRecord {
    pub fn new(boot_id: &str, guest_boot: &str, port: u16, password: String) -> Self {
        let mut record = Self { boot_id: String::new(), guest_boot: None, port, password };
        record.set_boot(boot_id, guest_boot);
        record
    }

    /// The server lives in the boot of this id, in a guest that booted as `guest_boot`.
    pub fn set_boot(&mut self, boot_id: &str, guest_boot: &str) {
        self.boot_id = boot_id.into();
        self.guest_boot = (guest_boot != boot_id).then(|| guest_boot.into());
    }

    /// Whether the server can live in the boot of this id, in a guest that booted as `guest_boot`.
    pub fn is_of(&self, boot_id: &str, guest_boot: &str) -> bool {
        match &self.guest_boot {
            Some(known) => known == guest_boot,
            // The same name for both; or the start alone, of an earlier version.
            None => self.boot_id == guest_boot || self.boot_id == boot_id,
        }
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
        let first = DaemonRecord::new("start 1", "start 1", 1, "p".into());
        assert!(first.is_of("start 2", "start 1") && !first.is_of("start 2", "start 2"));
    }

    /// A keeper of an earlier version refuses to read what it does not know.
    #[test]
    fn a_guests_boot_is_said_only_where_it_has_a_name_of_its_own() {
        let said = |boot_id, guest_boot| {
            let record = DaemonRecord::new(boot_id, guest_boot, 1, "p".into());
            serde_json::to_value(record).unwrap().get("guest_boot").cloned()
        };
        assert_eq!(said("start 1", "start 1"), None);
        assert_eq!(said("start 2", "start 1"), Some("start 1".into()));
    }

    #[test]
    fn what_a_newer_version_adds_is_read_past() {
        let daemon = r#"{ "boot_id": "b", "port": 1, "password": "p", "added": 1 }"#;
        assert_eq!(
            serde_json::from_str::<DaemonRecord>(daemon).unwrap(),
            DaemonRecord::new("b", "b", 1, "p".into())
        );
        let provision = r#"{ "home_volume": null, "files": { "a": "1" }, "hooks_boot": "b", "added": 1 }"#;
        let read: ProvisionRecord = serde_json::from_str(provision).unwrap();
        assert_eq!((read.files["a"].as_str(), read.hooks_boot.as_deref()), ("1", Some("b")));
        // Which is not to say that anything at all is such a record.
        assert!(serde_json::from_str::<ProvisionRecord>(r#"{ "version": 999 }"#).is_err());
        assert!(serde_json::from_str::<DaemonRecord>(r#"{ "version": 999 }"#).is_err());
    }
}

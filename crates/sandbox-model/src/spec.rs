use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{ByteSize, Digest, ImageRef, NetworkPolicy, PortForward, SandboxName, SecretSpec};

/// Label keys on sandboxes and images; `--label project=…` is short for the first.
pub mod labels {
    /// What every key of ours begins with: a thing without one was not made by this program.
    pub const PREFIX: &str = "org.agents-sandbox.";
    /// On a sandbox: the repository's slug, where the checkout has one.
    pub const PROJECT: &str = "org.agents-sandbox.project";
    /// On a sandbox: the checkout's slug.
    pub const CHECKOUT: &str = "org.agents-sandbox.checkout";
    /// On sandboxes and images: the agent's name.
    pub const AGENT: &str = "org.agents-sandbox.agent";
    /// On a sandbox: the reference of the image that it was made from.
    pub const IMAGE: &str = "org.agents-sandbox.image";
    /// `true` on whatever this program makes: by it an image engine is asked for our images alone.
    pub const MANAGED: &str = "org.agents-sandbox.managed";
    /// On an image: its base, as `reference@id` where the engine had it.
    pub const BASE: &str = "org.agents-sandbox.base";
    /// On an image: the hash of all that it was built from. Where it is another, the image is built again.
    pub const DOCKERFILE_ID: &str = "org.agents-sandbox.dockerfile-id";
    /// On a sandbox that serves one task and is thrown away after it.
    pub const TASK: &str = "org.agents-sandbox.task";
}

/// What a machine gets of the host's processor and memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resources {
    /// Virtual CPUs, at least 1 (the caller has replaced "all" by the host's count).
    pub cpus: u32,
    /// The guest's whole memory, its page cache included.
    pub memory: ByteSize,
}

/// The home volume: a raw ext4 file of ours, mounted read-write at [`crate::GUEST_HOME`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HomeDisk {
    /// Absolute, on the host.
    pub path: PathBuf,
}

/// The checkout, mounted read-write at [`crate::GUEST_WORKSPACE`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceMount {
    /// Absolute and resolved.
    pub source: PathBuf,
    /// How much the guest may add, on top of what is there.
    pub quota: ByteSize,
    /// Who owns what the guest writes, on the host. The share server runs as this user.
    pub host_uid: u32,
    /// The group of what the guest writes, on the host.
    pub host_gid: u32,
    /// Who `dev` is in the guest; host files of `host_uid` show as this one.
    pub guest_uid: u32,
    /// The group of `dev` in the guest; host files of `host_gid` show as this one.
    pub guest_gid: u32,
}

/// A folder or a single file of the host in the guest, beside the checkout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtraMount {
    /// Absolute, in the guest.
    pub target: String,
    /// Absolute and resolved, on the host.
    pub source: PathBuf,
    /// The guest changes nothing in it; whoever has it writable writes as the checkout's owner does.
    pub readonly: bool,
}

impl SandboxSpec {
    /// Takes published ports away and adds others, each once.
    pub fn change_ports(&mut self, open: &[PortForward], close: &[PortForward]) {
        self.ports.retain(|port| !close.contains(port));
        for port in open {
            if !self.ports.contains(port) {
                self.ports.push(*port);
            }
        }
    }
}

/// Everything a runtime needs to make one sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxSpec {
    /// What the runtime knows it by; no two sandboxes have the same.
    pub name: SandboxName,
    /// What the image is called; what it holds is `image_digest`, whatever the name means later.
    pub image: ImageRef,
    /// The content that the root is made of, which the runtime has to have.
    pub image_digest: Digest,
    /// The processors and memory it boots with.
    pub resources: Resources,
    /// The root disk's capacity: what the guest may write outside home, workspace and `/tmp`.
    pub root_disk: ByteSize,
    /// Capacity of the tmpfs at `/tmp`.
    pub tmp: ByteSize,
    /// What is mounted at the home.
    pub home: HomeDisk,
    /// The checkout, and who owns what in it.
    pub workspace: WorkspaceMount,
    /// On top of the image's own environment.
    pub env: BTreeMap<String, String>,
    /// What its network lets through.
    pub network: NetworkPolicy,
    /// By their targets, so that what lies inside another comes after it.
    #[serde(default)]
    pub mounts: Vec<ExtraMount>,
    /// Ports of the host that lead into it.
    #[serde(default)]
    pub ports: Vec<PortForward>,
    /// What stands in for values that the guest never has. By name.
    #[serde(default)]
    pub secrets: Vec<SecretSpec>,
    /// Commands find the user's ssh-agent at [`crate::GUEST_SSH_AGENT`], as far as its rules go.
    #[serde(default)]
    pub ssh_agent: bool,
    /// Keys of [`labels`] and their values; they change nothing in the guest.
    pub labels: BTreeMap<String, String>,
    /// The net below the keeper: with no client for this long the runtime stops the sandbox itself.
    pub idle_timeout: Duration,
    /// Whether a stop may save the memory: a runtime that can has to boot the sandbox for it.
    #[serde(default)]
    pub sleep: bool,
}

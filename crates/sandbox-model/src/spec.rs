use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{ByteSize, Digest, ImageRef, NetworkPolicy, PortForward, SandboxName, SecretSpec};

/// Label keys on sandboxes and images; `--label project=…` is short for the first.
pub mod labels {
    pub const PREFIX: &str = "org.agents-sandbox.";
    pub const PROJECT: &str = "org.agents-sandbox.project";
    pub const CHECKOUT: &str = "org.agents-sandbox.checkout";
    pub const AGENT: &str = "org.agents-sandbox.agent";
    pub const IMAGE: &str = "org.agents-sandbox.image";
    pub const MANAGED: &str = "org.agents-sandbox.managed";
    pub const BASE: &str = "org.agents-sandbox.base";
    pub const DOCKERFILE_ID: &str = "org.agents-sandbox.dockerfile-id";
    /// On a sandbox that serves one task and is thrown away after it.
    pub const TASK: &str = "org.agents-sandbox.task";
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resources {
    /// Virtual CPUs, at least 1 (the caller has replaced "all" by the host's count).
    pub cpus: u32,
    pub memory: ByteSize,
}

/// The home volume: a raw ext4 file of ours, mounted read-write at [`crate::GUEST_HOME`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HomeDisk {
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
    pub host_gid: u32,
    /// Who `dev` is in the guest; host files of `host_uid` show as this one.
    pub guest_uid: u32,
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
    pub name: SandboxName,
    pub image: ImageRef,
    pub image_digest: Digest,
    pub resources: Resources,
    /// The root disk's capacity: what the guest may write outside home, workspace and `/tmp`.
    pub root_disk: ByteSize,
    /// Capacity of the tmpfs at `/tmp`.
    pub tmp: ByteSize,
    pub home: HomeDisk,
    pub workspace: WorkspaceMount,
    /// On top of the image's own environment.
    pub env: BTreeMap<String, String>,
    pub network: NetworkPolicy,
    /// By their targets, so that what lies inside another comes after it.
    #[serde(default)]
    pub mounts: Vec<ExtraMount>,
    #[serde(default)]
    pub ports: Vec<PortForward>,
    /// What stands in for values that the guest never has. By name.
    #[serde(default)]
    pub secrets: Vec<SecretSpec>,
    /// Commands find the user's ssh-agent at [`crate::GUEST_SSH_AGENT`], as far as its rules go.
    #[serde(default)]
    pub ssh_agent: bool,
    pub labels: BTreeMap<String, String>,
    /// The net below the keeper: with no client for this long the runtime stops the sandbox itself.
    pub idle_timeout: Duration,
    /// Whether a stop may save the memory: a runtime that can has to boot the sandbox for it.
    #[serde(default)]
    pub sleep: bool,
}

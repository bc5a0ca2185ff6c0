use std::path::PathBuf;

use sandbox_model::AgentRules;
use serde::{Deserialize, Serialize};

/// Who holds a lease, for `list` and for messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ClientInfo {
    /// The process of the client, on the host.
    pub pid: u32,
    /// The verb: `run`, `shell`, `exec`.
    pub verb: String,
    /// The program's version that the client runs.
    pub version: String,
    /// Hold the sandbox for at least so many seconds from now on, whoever leaves.
    #[serde(default)]
    pub keep_secs: Option<u64>,
    /// Its user's ssh-agent, where the sandbox may use it.
    #[serde(default)]
    pub ssh_agent: Option<SshAgentOffer>,
}

/// A user's ssh-agent, for the programs of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SshAgentOffer {
    /// `SSH_AUTH_SOCK` of the client; `None` where it has none.
    pub socket: Option<PathBuf>,
    /// What the sandbox may ask it.
    pub rules: AgentRules,
}

/// What a client asks a keeper: one JSON frame on a connection of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "request")]
pub enum KeeperRequest {
    /// Hold the sandbox for as long as this connection is open.
    Lease(ClientInfo),
    /// Who holds the sandbox, and when it stops. One [`KeeperReply::Status`].
    Status,
}

/// What a keeper answers, as one JSON frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "reply")]
pub enum KeeperReply {
    /// The sandbox is held from now on.
    Leased {
        /// How many leases there were already.
        other_clients: u32,
    },
    /// The keeper is stopping the sandbox: wait for this connection to close, then start it again.
    Draining,
    /// As it is at this moment.
    Status(KeeperStatus),
}

/// What a keeper knows of its sandbox's near future.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct KeeperStatus {
    /// Everybody who holds a lease.
    pub clients: Vec<ClientInfo>,
    /// For people: `held by 2 clients`, `held: 1 busy session`, `stops in 8 s`.
    pub reason: String,
    /// Seconds until the stop, where one is due.
    pub stops_in_secs: Option<u64>,
}

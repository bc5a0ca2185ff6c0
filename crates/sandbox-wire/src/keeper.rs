use std::path::PathBuf;

use sandbox_model::AgentRules;
use serde::{Deserialize, Serialize};

/// Who holds a lease, for `list` and for messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ClientInfo {
    pub pid: u32,
    /// The verb: `run`, `shell`, `exec`.
    pub verb: String,
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
    pub rules: AgentRules,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "request")]
pub enum KeeperRequest {
    /// Hold the sandbox for as long as this connection is open.
    Lease(ClientInfo),
    Status,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "reply")]
pub enum KeeperReply {
    Leased {
        other_clients: u32,
    },
    /// The keeper is stopping the sandbox: wait for this connection to close, then start it again.
    Draining,
    Status(KeeperStatus),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct KeeperStatus {
    pub clients: Vec<ClientInfo>,
    /// For people: `held by 2 clients`, `held: 1 busy session`, `stops in 8 s`.
    pub reason: String,
    /// Seconds until the stop, where one is due.
    pub stops_in_secs: Option<u64>,
}

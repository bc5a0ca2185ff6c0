use serde::{Deserialize, Serialize};

/// Where a guest finds the user's ssh-agent, where it was given to it.
pub const GUEST_SSH_AGENT: &str = "/run/agents-sandbox/ssh-agent.sock";

/// The same in a guest that has a read-only folder of guest programs there.
pub const GUEST_SSH_AGENT_ASIDE: &str = "/run/agents-sandbox-ssh-agent/socket";

/// What of the user's ssh-agent a guest may use. Whatever they say, it only asks for keys and signatures.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct AgentRules {
    /// Fingerprints (`SHA256:…`) or comments of keys; empty is every key.
    pub keys: Vec<String>,
    /// Only signatures of git commits and tags: nobody can log in anywhere with them.
    pub git_signatures_only: bool,
}

/// The variable of a guest that has the user's ssh-agent.
pub const SSH_AGENT_VARIABLE: &str = "SSH_AUTH_SOCK";

/// The variables of a guest that has the user's ssh-agent at `socket`.
pub fn ssh_agent_environment(has_agent: bool, socket: &str) -> Option<(String, String)> {
    has_agent.then(|| (SSH_AGENT_VARIABLE.into(), socket.into()))
}

use serde::{Deserialize, Serialize};

/// Where a guest finds the user's ssh-agent, where it was given to it.
pub const GUEST_SSH_AGENT: &str = "/run/agents-sandbox/ssh-agent.sock";

/// What of the user's ssh-agent a guest may use. Whatever they say, it only asks for keys and signatures.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct AgentRules {
    /// Fingerprints (`SHA256:…`) or comments of keys; empty is every key.
    pub keys: Vec<String>,
    /// Only signatures of git commits and tags: nobody can log in anywhere with them.
    pub git_signatures_only: bool,
}

/// The variables of a guest that has the user's ssh-agent.
pub fn ssh_agent_environment(has_agent: bool) -> Option<(String, String)> {
    has_agent.then(|| ("SSH_AUTH_SOCK".into(), GUEST_SSH_AGENT.into()))
}

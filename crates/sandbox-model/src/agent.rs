use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A coding agent that a sandbox can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgentName {
    Opencode,
    Opencode2,
    Pi,
    ClaudeCode,
}

/// A name that is none of [`AgentName::ALL`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown agent `{0}`; the agents are {all}", all = AgentName::ALL.map(AgentName::as_str).join(", "))]
pub struct UnknownAgent(pub String);

impl AgentName {
    pub const ALL: [Self; 4] = [Self::Opencode, Self::Opencode2, Self::Pi, Self::ClaudeCode];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Opencode => "opencode",
            Self::Opencode2 => "opencode2",
            Self::Pi => "pi",
            Self::ClaudeCode => "claude-code",
        }
    }
}

impl fmt::Display for AgentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for AgentName {
    type Err = UnknownAgent;

    fn from_str(text: &str) -> Result<Self, UnknownAgent> {
        Self::ALL.into_iter().find(|agent| agent.as_str() == text).ok_or_else(|| UnknownAgent(text.into()))
    }
}

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The class of addresses a sandbox may reach before its lists are looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NetworkProfile {
    /// Nothing but what `egress-allow` adds.
    #[default]
    None,
    /// Private ranges.
    Private,
    /// The host's own services.
    Host,
    /// Public addresses; private ranges, the host and the metadata address stay closed.
    Public,
}

/// A text that names no profile; it holds the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown network profile `{0}`; the profiles are none, private, host and public")]
pub struct UnknownProfile(pub String);

impl NetworkProfile {
    /// Every profile, as messages and completions list them.
    pub const ALL: [Self; 4] = [Self::None, Self::Private, Self::Host, Self::Public];

    /// The word for it in settings and records.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Private => "private",
            Self::Host => "host",
            Self::Public => "public",
        }
    }
}

impl fmt::Display for NetworkProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for NetworkProfile {
    type Err = UnknownProfile;

    fn from_str(text: &str) -> Result<Self, UnknownProfile> {
        Self::ALL.into_iter().find(|p| p.as_str() == text).ok_or_else(|| UnknownProfile(text.into()))
    }
}

/// What a sandbox may reach. Fixed when the sandbox is started.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct NetworkPolicy {
    /// What is open before the lists are looked at.
    pub profile: NetworkProfile,
    /// `host`, a CIDR or address, a name, `.suffix`, or `*`; optionally `:port`.
    pub egress_allow: Vec<String>,
    /// Same forms; a denial wins over an allowance.
    pub egress_deny: Vec<String>,
    /// `address:port` of the resolvers to ask; empty is the host's own.
    pub dns_servers: Vec<String>,
}

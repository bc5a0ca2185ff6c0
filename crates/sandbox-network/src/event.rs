//! What a guest tried to reach, and what the policy said: one JSON document a line.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// One connection, datagram, name or message, allowed or denied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Event {
    /// Milliseconds since 1970.
    pub at: u64,
    /// What became of it.
    pub verdict: Verdict,
    /// What it was.
    pub kind: EventKind,
    /// The name that was asked for, or under which the guest found the address.
    pub name: Option<String>,
    /// `address:port`; without a port for a ping.
    pub address: Option<String>,
    /// The rule that decided, for people.
    pub rule: String,
    /// The entry of `egress-allow` that would open what was denied; `None` where a denial in the settings
    /// closes it.
    pub opens: Option<String>,
}

/// What became of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The policy let it out; whether somebody answered is not known here.
    Allowed,
    /// The policy kept it in.
    Denied,
    /// Allowed, and the proxy on the way or this host did not let it through, or could not resolve it.
    Failed,
}

/// What a guest attempted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    /// A connection; one more to the same destination, soon after, is not told again.
    Tcp,
    /// The first datagram to a destination in a while.
    Udp,
    /// The first echo request to an address in a while.
    Ping,
    /// A name that was looked up.
    Name,
    /// What a connection said first names another host than the policy allows there.
    Tls,
    /// The same, where it is a request of plain HTTP.
    Http,
    /// The stand-in of a secret was on its way to where the secret may not go.
    Secret,
}

impl EventKind {
    /// The word for it in the log, as JSON and for people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Ping => "ping",
            Self::Name => "name",
            Self::Tls => "tls",
            Self::Http => "http",
            Self::Secret => "secret",
        }
    }
}

impl Event {
    /// What the event is about: the same subject is not told twice within a while.
    pub fn subject(&self) -> String {
        let kind = self.kind.as_str();
        match (&self.kind, &self.name, &self.address) {
            (EventKind::Name, Some(name), _) | (_, Some(name), None) => format!("{kind} {name}"),
            (EventKind::Tls | EventKind::Http | EventKind::Secret, Some(name), Some(address)) => {
                format!("{kind} {name} at {address}")
            }
            (_, _, Some(address)) => format!("{kind} {address}"),
            (_, None, None) => kind.into(),
        }
    }

    /// Why, and what would open it.
    pub fn reason(&self) -> String {
        match &self.opens {
            Some(entry) => format!("{}; egress-allow: [\"{entry}\"] would open it", self.rule),
            None => self.rule.clone(),
        }
    }
}

pub(crate) fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

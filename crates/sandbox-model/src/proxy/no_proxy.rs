use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Destination, Target};

/// What is reached without the proxy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NoProxy(Vec<Entry>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    Any,
    Net {
        address: IpAddr,
        prefix: u8,
        port: Option<u16>,
    },
    /// The name itself and everything below it.
    Name {
        name: String,
        port: Option<u16>,
    },
}

/// Why a text is no such entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` names nothing that could be reached without the proxy")]
pub struct InvalidNoProxy(pub String);

/// What an entry may be, for whoever wrote something else.
pub const NO_PROXY_FORMS: &str = "an entry is a name (everything below it is meant too), `.suffix`, an address, a CIDR like \
     10.0.0.0/8 or `*`, each with `:port` if only that port is meant";

impl NoProxy {
    /// The value of `NO_PROXY`, split at commas and blanks. What is no entry is left out, as every program does
    /// that reads this variable.
    pub fn lenient(text: &str) -> Self {
        Self(parts(text).filter_map(|part| part.parse().ok()).collect())
    }

    /// One entry for each text.
    pub fn of<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Self, InvalidNoProxy> {
        texts.into_iter().map(str::parse).collect::<Result<_, _>>().map(Self)
    }

    /// Whether a destination is reached directly. Loopback always is.
    pub fn has(&self, name: Option<&str>, address: Option<IpAddr>, port: u16) -> bool {
        let name = name.map(|name| name.trim_end_matches('.').to_ascii_lowercase());
        let address = address.map(|address| address.to_canonical());
        address.is_some_and(|address| address.is_loopback())
            || self.0.iter().any(|entry| entry.has(name.as_deref(), address, port))
    }
}

fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c == ',' || c.is_whitespace()).filter(|part| !part.is_empty())
}

impl Entry {
    fn has(&self, name: Option<&str>, address: Option<IpAddr>, to: u16) -> bool {
        let at = |port: &Option<u16>| port.is_none_or(|port| port == to);
        match self {
            Self::Any => true,
            Self::Net { address: net, prefix, port } => {
                at(port) && address.is_some_and(|address| inside(address, *net, *prefix))
            }
            Self::Name { name: entry, port } => {
                let below = |name: &str| {
                    name.strip_suffix(entry.as_str())
                        .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
                };
                at(port) && name.is_some_and(below)
            }
        }
    }
}

fn inside(address: IpAddr, net: IpAddr, prefix: u8) -> bool {
    let (address, net, width): (u128, u128, u8) = match (address, net) {
        (IpAddr::V4(address), IpAddr::V4(net)) => (u32::from(address).into(), u32::from(net).into(), 32),
        (IpAddr::V6(address), IpAddr::V6(net)) => (address.into(), net.into(), 128),
        _ => return false,
    };
    let shift = u32::from(width.saturating_sub(prefix));
    address.checked_shr(shift).unwrap_or(0) == net.checked_shr(shift).unwrap_or(0)
}

impl FromStr for Entry {
    type Err = InvalidNoProxy;

    fn from_str(text: &str) -> Result<Self, InvalidNoProxy> {
        let error = || InvalidNoProxy(text.into());
        // `*.example.com` is how some write `.example.com`, and both mean what `example.com` means.
        let plain = text.strip_prefix('*').filter(|rest| rest.starts_with('.')).unwrap_or(text);
        let plain = plain.strip_prefix('.').unwrap_or(plain);
        let Destination { target, port } = plain.parse().map_err(|_| error())?;
        match target {
            Target::Any if port.is_none() => Ok(Self::Any),
            Target::Any => Err(error()),
            Target::Net { address, prefix } => Ok(Self::Net { address, prefix, port }),
            Target::Name(name) | Target::Suffix(name) => Ok(Self::Name { name, port }),
            // A name like any other here.
            Target::Host => Ok(Self::Name { name: "host".into(), port }),
        }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (target, port) = match self {
            Self::Any => (Target::Any, None),
            Self::Net { address, prefix, port } => {
                (Target::Net { address: *address, prefix: *prefix }, *port)
            }
            Self::Name { name, port } => (Target::Name(name.clone()), *port),
        };
        Destination { target, port }.fmt(f)
    }
}

/// Separated by commas, as programs take it.
impl fmt::Display for NoProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.iter().map(ToString::to_string).collect::<Vec<_>>().join(","))
    }
}

impl Serialize for NoProxy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for NoProxy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::of(parts(&String::deserialize(deserializer)?)).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(list: &str, to: &str, port: u16) -> bool {
        let address = to.parse().ok();
        NoProxy::lenient(list).has(address.is_none().then_some(to), address, port)
    }

    #[test]
    fn the_usual_forms() {
        for (list, to, port, direct) in [
            ("", "a.example", 443, false),
            ("*", "a.example", 443, true),
            ("*", "8.8.8.8", 53, true),
            ("example.com", "example.com", 443, true),
            ("example.com", "API.Example.com.", 443, true),
            ("example.com", "badexample.com", 443, false),
            ("example.com", "example.com.evil", 443, false),
            (".example.com", "api.example.com", 443, true),
            (".example.com", "example.com", 443, true),
            ("*.example.com", "api.example.com", 443, true),
            (".corp", "git.corp", 443, true),
            ("corp", "git.corp", 443, true),
            (".corp:80", "git.corp", 443, false),
            ("a.example b.example,c.example", "b.example", 1, true),
            ("a.example:8443", "a.example", 8443, true),
            ("a.example:8443", "a.example", 443, false),
            ("10.1.2.3", "10.1.2.3", 1, true),
            ("10.1.2.3", "10.1.2.4", 1, false),
            ("10.1.2.3:80", "10.1.2.3", 81, false),
            ("10.0.0.0/8", "10.255.0.1", 1, true),
            ("10.0.0.0/8", "11.0.0.1", 1, false),
            ("0.0.0.0/0", "11.0.0.1", 1, true),
            ("0.0.0.0/0", "2001:db8::1", 1, false),
            ("2001:db8::/32", "2001:db8::1", 1, true),
            ("[2001:db8::1]:443", "2001:db8::1", 443, true),
            ("10.0.0.0/8", "::ffff:10.0.0.1", 1, true),
            ("", "127.0.0.1", 1, true),
            ("<local>, ,!, 10.0.0.0/99,a.example", "a.example", 1, true),
            ("host", "host", 1, true),
        ] {
            assert_eq!(has(list, to, port), direct, "`{list}` and {to}:{port}");
        }
    }

    #[test]
    fn what_settings_say_must_be_an_entry() {
        assert_eq!(NoProxy::of(["<local>"]), Err(InvalidNoProxy("<local>".into())));
        assert!(NoProxy::of(["10.0.0.0/8", ".corp.example", "x:80", "*"]).is_ok());
    }

    #[test]
    fn a_list_that_is_written_is_read_again() {
        let list = NoProxy::lenient("*, .corp.example, x:80, 10.0.0.0/8:443, 10.0.0.1, [2001:db8::1]:1, ::1");
        assert_eq!(serde_json_round(&list), list);
    }

    fn serde_json_round(list: &NoProxy) -> NoProxy {
        NoProxy::of(parts(&list.to_string())).unwrap()
    }
}

use std::fmt;
use std::net::IpAddr;

use ipnetwork::IpNetwork;
use microsandbox_network::policy::{DomainName, PortRange};

use crate::HOST_NAMES;

/// Which list an entry stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EgressList {
    Allow,
    Deny,
}

impl fmt::Display for EgressList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Allow => "egress-allow",
            Self::Deny => "egress-deny",
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    #[error(
        "{list}: `{entry}`: {problem}; an entry is `host`, an address, a CIDR like 10.0.0.0/8, a name, `.suffix` \
         or `*`, each with `:port` if only that port is meant ([2001:db8::1]:443 for IPv6)"
    )]
    Entry { list: EgressList, entry: String, problem: String },
    #[error("dns-servers: `{entry}` is no resolver; one is `address`, `address:port`, `name` or `name:port`")]
    Resolver { entry: String },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    Host,
    Net(IpNetwork),
    Name(DomainName),
    /// The name itself and everything below it.
    Suffix(DomainName),
    Any,
}

/// One parsed entry of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub target: Target,
    pub port: Option<u16>,
}

impl Entry {
    pub fn parse(list: EgressList, text: &str) -> Result<Self, PolicyError> {
        let error = |problem: String| PolicyError::Entry { list, entry: text.into(), problem };
        let (target, port) = split_port(text.trim()).map_err(error)?;
        let target = parse_target(target).map_err(error)?;
        match &target {
            Target::Net(net) if list == EgressList::Allow && is_guests_own(net) => {
                Err(error("this is the guest itself; the host's own services are `host`".into()))
            }
            _ => Ok(Self { target, port }),
        }
    }

    pub fn ports(&self) -> Vec<PortRange> {
        self.port.map(PortRange::single).into_iter().collect()
    }
}

/// Loopback and the unspecified address: to a guest, itself. Wider networks contain them and are fine,
/// because the floor denies these parts.
fn is_guests_own(net: &IpNetwork) -> bool {
    match net.network() {
        IpAddr::V4(address) => {
            (address.octets()[0] == 127 && net.prefix() >= 8)
                || (address.is_unspecified() && net.prefix() >= 8)
        }
        IpAddr::V6(address) => (address.is_loopback() || address.is_unspecified()) && net.prefix() >= 96,
    }
}

/// The target, and the port where one is given. An address of version 6 with a port stands in brackets.
fn split_port(text: &str) -> Result<(&str, Option<u16>), String> {
    let (target, port) = if let Some(rest) = text.strip_prefix('[') {
        match rest.split_once(']') {
            Some((target, "")) => (target, None),
            Some((target, rest)) if rest.starts_with(':') => (target, Some(&rest[1..])),
            _ => return Err("the bracket is not closed".into()),
        }
    } else if text.matches(':').count() > 1 {
        (text, None)
    } else {
        match text.split_once(':') {
            Some((target, port)) => (target, Some(port)),
            None => (text, None),
        }
    };
    let port = match port {
        None => None,
        Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => {
            Some(digits.parse().ok().filter(|port| *port > 0).ok_or(format!("`{digits}` is no port"))?)
        }
        Some(other) => return Err(format!("`{other}` is no port")),
    };
    Ok((target, port))
}

fn parse_target(text: &str) -> Result<Target, String> {
    if text.is_empty() {
        return Err("there is nothing before the port".into());
    }
    let lower = text.to_ascii_lowercase();
    if text == "*" {
        return Ok(Target::Any);
    }
    if lower == "host" || HOST_NAMES.contains(&lower.as_str()) {
        return Ok(Target::Host);
    }
    if let Ok(net) = text.parse::<IpNetwork>() {
        return IpNetwork::new(net.network(), net.prefix()).map(Target::Net).map_err(|e| e.to_string());
    }
    if text.contains('/') {
        return Err("this is no CIDR, and neither paths nor addresses of web pages are taken".into());
    }
    if let Some(suffix) = text.strip_prefix("*.") {
        return Err(format!("a suffix is written `.{suffix}`"));
    }
    if text.contains('*') {
        return Err("`*` stands alone".into());
    }
    if lower == "localhost" || lower.ends_with(".localhost") {
        return Err("this is the guest itself; the host's own services are `host`".into());
    }
    let name_like = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if let Some(bad) = text.bytes().find(|b| !name_like(*b)) {
        return Err(format!("a name has no `{}`", char::from(bad).escape_default()));
    }
    // No top-level name is a number: what looks like one is a mistyped address.
    if lower
        .rsplit('.')
        .next()
        .is_some_and(|last| !last.is_empty() && last.bytes().all(|b| b.is_ascii_digit()))
    {
        return Err("this is neither an address nor a name".into());
    }
    let name = |text: &str| text.parse::<DomainName>().map_err(|error| error.to_string());
    match text.strip_prefix('.') {
        Some(suffix) if suffix.starts_with('.') => Err("a suffix begins with one dot".into()),
        Some(suffix) => {
            name(suffix)?.try_into_suffix().map(Target::Suffix).map_err(|error| error.to_string())
        }
        None => Ok(Target::Name(name(text)?)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<Entry, String> {
        Entry::parse(EgressList::Allow, text).map_err(|error| error.to_string())
    }

    fn net(text: &str) -> Target {
        Target::Net(text.parse().unwrap())
    }

    #[test]
    fn every_form_with_and_without_a_port() {
        let name = |text: &str| Target::Name(text.parse().unwrap());
        let cases = [
            ("host", Target::Host, None),
            ("host:8080", Target::Host, Some(8080)),
            ("HOST.agents-sandbox.internal:1", Target::Host, Some(1)),
            ("10.0.0.0/8", net("10.0.0.0/8"), None),
            ("10.1.2.3/8:443", net("10.0.0.0/8"), Some(443)),
            (" 192.168.1.7 ", net("192.168.1.7/32"), None),
            ("192.168.1.7:22", net("192.168.1.7/32"), Some(22)),
            ("2001:db8::1", net("2001:db8::1/128"), None),
            ("2001:db8::/32", net("2001:db8::/32"), None),
            ("[2001:db8::1]:443", net("2001:db8::1/128"), Some(443)),
            ("[2001:db8::/32]:65535", net("2001:db8::/32"), Some(65535)),
            ("Api.Example.com.", name("api.example.com"), None),
            ("registry:5000", name("registry"), Some(5000)),
            ("_dmarc.example.com", name("_dmarc.example.com"), None),
            (".example.com", Target::Suffix("example.com".parse().unwrap()), None),
            (".example.com:443", Target::Suffix("example.com".parse().unwrap()), Some(443)),
            ("*", Target::Any, None),
            ("*:443", Target::Any, Some(443)),
        ];
        for (text, target, port) in cases {
            assert_eq!(parse(text), Ok(Entry { target, port }), "{text}");
        }
    }

    #[test]
    fn an_error_names_the_list_the_entry_and_the_forms() {
        let cases = [
            ("https://example.com", "`//example.com` is no port"),
            ("example.com/x", "no CIDR"),
            ("10.0.0.0/33", "no CIDR"),
            ("*.example.com", "a suffix is written `.example.com`"),
            ("exa*mple.com", "`*` stands alone"),
            ("..example.com", "one dot"),
            (".com", "single DNS label"),
            (".", "domain name is empty"),
            ("", "nothing before the port"),
            (":80", "nothing before the port"),
            ("host:0", "`0` is no port"),
            ("host:65536", "`65536` is no port"),
            ("host:", "`` is no port"),
            ("host:http", "`http` is no port"),
            ("10.0.0", "neither an address nor a name"),
            ("999.1.1.1", "neither an address nor a name"),
            ("[::1", "not closed"),
            ("2001:db8::1:zz", "a name has no `:`"),
            ("a b", "a name has no ` `"),
            ("user@example.com", "a name has no `@`"),
            ("localhost:80", "`host`"),
            ("127.0.0.1:80", "`host`"),
            ("[::1]:80", "`host`"),
            ("0.0.0.0", "`host`"),
        ];
        for (text, part) in cases {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(&format!("egress-allow: `{text}`: ")), "{error}");
            assert!(error.contains(part) && error.contains("`.suffix`"), "{text}: {error}");
        }
        assert!(Entry::parse(EgressList::Deny, "127.0.0.0/8").is_ok());
        let denied = Entry::parse(EgressList::Deny, "x y").unwrap_err().to_string();
        assert!(denied.starts_with("egress-deny: "), "{denied}");
    }

    proptest! {
        #[test]
        fn nothing_typed_makes_it_panic(text in ".{0,60}") {
            let _ = Entry::parse(EgressList::Allow, &text);
        }
    }
}

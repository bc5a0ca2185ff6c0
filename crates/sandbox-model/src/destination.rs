use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Names in the guest for the host; all of them are in its `/etc/hosts`.
pub const HOST_NAMES: [&str; 2] = ["host.microsandbox.internal", "host.agents-sandbox.internal"];

/// One entry of `egress-allow` or `egress-deny`, parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// What is reached, on whatever port.
    pub target: Target,
    /// Only this port; `None` is all of them.
    pub port: Option<u16>,
}

/// What an entry is about, its port aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The host's own services.
    Host,
    /// The network around `address`; one address has the prefix 32 or 128.
    Net {
        /// Any address of the network; the bits behind `prefix` do not count.
        address: IpAddr,
        /// From 0 to 32 for IPv4, to 128 for IPv6.
        prefix: u8,
    },
    /// A name in lower case, without a last dot.
    Name(String),
    /// The name itself and everything below it.
    Suffix(String),
    /// Everything: `*`.
    Any,
}

/// Why a text is no destination, as the end of a sentence about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidDestination(pub String);

/// What a destination may be, for whoever wrote something else.
pub const DESTINATION_FORMS: &str = "an entry is `host`, an address, a CIDR like 10.0.0.0/8, a name, `.suffix` \
     or `*`, each with `:port` if only that port is meant ([2001:db8::1]:443 for IPv6)";

impl Destination {
    /// Loopback and the unspecified address: to a guest, itself, so that allowing it does nothing. Wider
    /// networks contain them and are fine.
    pub fn is_guest_itself(&self) -> bool {
        match self.target {
            Target::Net { address: IpAddr::V4(address), prefix } => {
                (address.octets()[0] == 127 || address.is_unspecified()) && prefix >= 8
            }
            Target::Net { address: IpAddr::V6(address), prefix } => {
                (address.is_loopback() || address.is_unspecified()) && prefix >= 96
            }
            _ => false,
        }
    }
}

impl FromStr for Destination {
    type Err = InvalidDestination;

    fn from_str(text: &str) -> Result<Self, InvalidDestination> {
        let (target, port) = split_port(text.trim()).map_err(InvalidDestination)?;
        let target = parse_target(target).map_err(InvalidDestination)?;
        Ok(Self { target, port })
    }
}

/// As it is written: parsing it again gives the same.
impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let target = match &self.target {
            Target::Host => "host".to_string(),
            Target::Net { address, prefix } if *prefix == widest(*address) => address.to_string(),
            Target::Net { address, prefix } => format!("{address}/{prefix}"),
            Target::Name(name) => name.clone(),
            Target::Suffix(name) => format!(".{name}"),
            Target::Any => "*".into(),
        };
        match self.port {
            None => f.pad(&target),
            Some(port) if target.contains("::") || target.matches(':').count() > 1 => {
                f.pad(&format!("[{target}]:{port}"))
            }
            Some(port) => f.pad(&format!("{target}:{port}")),
        }
    }
}

const fn widest(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// The target, and the port where one is given. An address of version 6 with a port stands in brackets.
fn split_port(text: &str) -> Result<(&str, Option<u16>), String> {
    let (target, port) = if let Some(rest) = text.strip_prefix('[') {
        match rest.split_once(']') {
            Some((target, "")) => (target, None),
            Some((target, rest)) if rest.starts_with(':') => (target, Some(&rest[1..])),
            _ => return Err("the bracket is not closed".into()),
        }
    } else if text.contains("://") {
        return Err("this is a URL; write its host alone, such as api.example.com:443".into());
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
        Some(digits) if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) => {
            let port = digits.parse().ok().filter(|port| *port > 0);
            Some(port.ok_or(format!("`{digits}` is no port; one is from 1 to 65535"))?)
        }
        Some(other) => return Err(format!("`{other}` is no port; one is from 1 to 65535")),
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
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(Target::Net { address, prefix: widest(address) });
    }
    if let Some((address, prefix)) = text.split_once('/') {
        return network(address, prefix);
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
    match lower.strip_prefix('.') {
        Some(suffix) if suffix.starts_with('.') => Err("a suffix begins with one dot".into()),
        Some(suffix) => {
            let name = name(suffix)?;
            if name.contains('.') {
                Ok(Target::Suffix(name))
            } else {
                Err(format!("`.{name}` has a single label and would be a whole top-level domain"))
            }
        }
        None => name(&lower).map(Target::Name),
    }
}

fn network(address: &str, prefix: &str) -> Result<Target, String> {
    let no_cidr = || "this is no CIDR, and neither paths nor addresses of web pages are taken".to_string();
    let address: IpAddr = address.parse().map_err(|_| no_cidr())?;
    let most = widest(address);
    let prefix: u8 =
        prefix.parse().ok().filter(|prefix| *prefix <= most).ok_or_else(|| {
            format!("`/{prefix}` is no prefix length of this CIDR; one is from 0 to {most}")
        })?;
    let address = match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(u32::from(32 - prefix)).unwrap_or(0);
            IpAddr::from((u32::from(v4) & mask).to_be_bytes())
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(u32::from(128 - prefix)).unwrap_or(0);
            IpAddr::from((u128::from(v6) & mask).to_be_bytes())
        }
    };
    Ok(Target::Net { address, prefix })
}

/// A checked name without its last dot.
fn name(text: &str) -> Result<String, String> {
    let text = text.strip_suffix('.').unwrap_or(text);
    if text.is_empty() {
        return Err("the domain name is empty".into());
    }
    if let Some(bad) = text.chars().find(|c| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_' | '.')) {
        return Err(format!("a name has no `{}`", bad.escape_default()));
    }
    let labels = || text.split('.');
    if text.len() > 253 || labels().any(|label| label.len() > 63) {
        return Err("a name has at most 253 characters, and 63 between two dots".into());
    }
    if labels().any(str::is_empty) {
        return Err("a name has no two dots in a row".into());
    }
    if labels().any(|label| label.starts_with('-') || label.ends_with('-')) {
        return Err("no part of a name begins or ends with `-`".into());
    }
    // No top-level name is a number: what looks like one is a mistyped address.
    if labels().next_back().is_some_and(|last| last.bytes().all(|b| b.is_ascii_digit())) {
        return Err("this is neither an address nor a name".into());
    }
    Ok(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Destination, String> {
        text.parse().map_err(|error: InvalidDestination| error.to_string())
    }

    fn net(address: &str, prefix: u8) -> Target {
        Target::Net { address: address.parse().unwrap(), prefix }
    }

    #[test]
    fn every_form_with_and_without_a_port() {
        let name = |text: &str| Target::Name(text.into());
        let cases = [
            ("host", Target::Host, None),
            ("host:8080", Target::Host, Some(8080)),
            ("HOST.agents-sandbox.internal:1", Target::Host, Some(1)),
            ("10.0.0.0/8", net("10.0.0.0", 8), None),
            ("10.1.2.3/8:443", net("10.0.0.0", 8), Some(443)),
            ("10.1.2.3/0", net("0.0.0.0", 0), None),
            (" 192.168.1.7 ", net("192.168.1.7", 32), None),
            ("192.168.1.7:22", net("192.168.1.7", 32), Some(22)),
            ("2001:db8::1", net("2001:db8::1", 128), None),
            ("2001:db8:ffff::/32", net("2001:db8::", 32), None),
            ("[2001:db8::1]:443", net("2001:db8::1", 128), Some(443)),
            ("[2001:db8::/32]:65535", net("2001:db8::", 32), Some(65535)),
            ("Api.Example.com.", name("api.example.com"), None),
            ("registry:5000", name("registry"), Some(5000)),
            ("_dmarc.example.com", name("_dmarc.example.com"), None),
            (".Example.com", Target::Suffix("example.com".into()), None),
            (".example.com:443", Target::Suffix("example.com".into()), Some(443)),
            ("*", Target::Any, None),
            ("*:443", Target::Any, Some(443)),
        ];
        for (text, target, port) in cases {
            let parsed = Destination { target, port };
            assert_eq!(parse(text).as_ref(), Ok(&parsed), "{text}");
            assert_eq!(parse(&parsed.to_string()), Ok(parsed), "{text} written again");
        }
    }

    #[test]
    fn what_is_none_says_why() {
        let cases = [
            ("https://example.com", "URL"),
            ("example.com/x", "no CIDR"),
            ("10.0.0.0/33", "from 0 to 32"),
            ("10.0.0.0/99", "from 0 to 32"),
            ("[::/129]:1", "from 0 to 128"),
            ("*.example.com", "a suffix is written `.example.com`"),
            ("exa*mple.com", "`*` stands alone"),
            ("..example.com", "one dot"),
            (".com", "single label"),
            (".", "domain name is empty"),
            ("", "nothing before the port"),
            (":80", "nothing before the port"),
            ("host:0", "`0` is no port"),
            ("host:65536", "`65536` is no port"),
            ("host:99999", "`99999` is no port"),
            ("host:", "`` is no port"),
            ("host:http", "`http` is no port"),
            ("10.0.0", "neither an address nor a name"),
            ("999.1.1.1", "neither an address nor a name"),
            ("[::1", "not closed"),
            ("2001:db8::1:zz", "a name has no `:`"),
            ("a b", "a name has no ` `"),
            ("user@example.com", "a name has no `@`"),
            ("a..example.com", "two dots"),
            ("-", "begins or ends"),
            ("localhost:80", "`host`"),
        ];
        for (text, part) in cases {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn the_guest_itself_is_known() {
        for (text, itself) in [
            ("127.0.0.1:80", true),
            ("127.0.0.0/8", true),
            ("[::1]:80", true),
            ("0.0.0.0", true),
            ("0.0.0.0/0", false),
            ("::/0", false),
            ("10.0.0.1", false),
            ("host", false),
        ] {
            assert_eq!(parse(text).unwrap().is_guest_itself(), itself, "{text}");
        }
    }
}

use std::net::{IpAddr, SocketAddr};

use sandbox_model::NetworkPolicy;

use crate::error::Refusal;
use crate::read::{Folders, items_of};
use crate::settings::Settings;
use crate::tree::Node;

impl Settings {
    /// What the sandbox may reach, from the four `network.*` settings.
    pub fn network_policy(&self) -> NetworkPolicy {
        NetworkPolicy {
            profile: self.network_profile.value,
            egress_allow: self.network_egress_allow.value.clone(),
            egress_deny: self.network_egress_deny.value.clone(),
            dns_servers: self.network_dns_servers.value.clone(),
        }
    }
}

/// A list of `host`, CIDRs, addresses, names, `.suffix` or `*`, each optionally with `:port`. Only what
/// cannot be one of them is refused here; the network's own parser has the last word.
pub(crate) fn destinations(node: &Node, _: &Folders) -> Result<Vec<String>, Refusal> {
    let mut destinations = Vec::new();
    for (text, span) in items_of(node)? {
        if text.contains("://") {
            let refusal = Refusal::new(span, format!("`{text}` is a URL, not a destination"));
            return Err(refusal.help("write the host alone, such as api.example.com or api.example.com:443"));
        }
        let plain =
            |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '/' | '*' | '[' | ']');
        if !text.chars().all(plain) {
            let refusal = Refusal::new(span, format!("`{text}` is not a destination"));
            return Err(refusal
                .help("write host, an address, a CIDR, a name, .suffix or *, and :port where one is meant"));
        }
        if !text.is_empty() && !destinations.contains(&text) {
            destinations.push(text);
        }
    }
    Ok(destinations)
}

/// A list of resolvers as `address:port`; port 53 is added to a bare address.
pub(crate) fn resolvers(node: &Node, _: &Folders) -> Result<Vec<String>, Refusal> {
    items_of(node)?
        .into_iter()
        .map(|(text, span)| {
            resolver(&text).map_err(|reason| {
                Refusal::new(span, format!("`{text}` is not a resolver: {reason}"))
                    .help("write an address such as 1.1.1.1, or address:port")
            })
        })
        .collect()
}

fn resolver(text: &str) -> Result<String, &'static str> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Ok(SocketAddr::new(address, 53).to_string());
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        return if address.port() == 0 { Err("its port is 0") } else { Ok(address.to_string()) };
    }
    if text.is_empty() {
        return Err("it is empty");
    }
    let (host, port) = text.rsplit_once(':').ok_or("it has no port")?;
    if host.is_empty() {
        return Err("it has no host");
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    if !host.chars().all(plain) {
        return Err("its host is no name and no address");
    }
    match port.parse::<u16>() {
        Ok(1..) => Ok(text.into()),
        _ => Err("its port is not a number from 1 to 65535"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolvers_get_a_port_and_nothing_else_is_guessed() {
        for (text, whole) in [
            ("1.1.1.1", "1.1.1.1:53"),
            ("1.1.1.1:5353", "1.1.1.1:5353"),
            ("::1", "[::1]:53"),
            ("[::1]", "[::1]:53"),
            ("[2001:db8::1]:5353", "[2001:db8::1]:5353"),
            ("dns.example.com:53", "dns.example.com:53"),
        ] {
            assert_eq!(resolver(text).as_deref(), Ok(whole), "{text}");
        }
        for text in [
            "",
            "dns.example.com",
            ":53",
            "1.1.1.1:",
            "1.1.1.1:0",
            "1.1.1.1:70000",
            "a b:53",
            "x:y",
            "host:0",
        ] {
            assert!(resolver(text).is_err(), "{text}");
        }
    }
}

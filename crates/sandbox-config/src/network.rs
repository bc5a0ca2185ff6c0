use std::net::{IpAddr, SocketAddr};

use sandbox_model::{DESTINATION_FORMS, Destination, InvalidPort, NetworkPolicy, PortForward};

use crate::error::Refusal;
use crate::origin::Origin;
use crate::read::{Folders, items_of};
use crate::settings::Settings;
use crate::tree::Node;

impl Settings {
    /// What the sandbox may reach, from the `network.*` settings.
    pub fn network_policy(&self) -> NetworkPolicy {
        let mut egress_allow = self.network_egress_allow.value.clone();
        for destination in &self.network_provider.value {
            if !egress_allow.contains(destination) {
                egress_allow.push(destination.clone());
            }
        }
        NetworkPolicy {
            profile: self.network_profile.value,
            egress_allow,
            egress_deny: self.network_egress_deny.value.clone(),
            dns_servers: self.network_dns_servers.value.clone(),
        }
    }
}

impl Settings {
    /// The ports to publish; each was checked when it was read.
    pub fn port_forwards(&self) -> Vec<PortForward> {
        self.ports.value.iter().filter_map(|text| text.parse().ok()).collect()
    }

    /// Fills in what the agent needs to reach its provider, where no layer said otherwise.
    pub fn default_provider(&mut self, destinations: &[&str]) {
        if self.network_provider.origin == Origin::Default {
            self.network_provider.value = destinations.iter().map(ToString::to_string).collect();
        }
    }
}

/// Destinations that are allowed: the guest itself is none.
pub(crate) fn allowed(node: &Node, folders: &Folders) -> Result<Vec<String>, Refusal> {
    for (text, span) in items_of(node)? {
        if text.parse::<Destination>().is_ok_and(|destination| destination.is_guest_itself()) {
            let message = format!("`{text}` is the guest itself");
            return Err(Refusal::new(span, message).help("the host's own services are `host`"));
        }
    }
    destinations(node, folders)
}

/// A list of `host`, CIDRs, addresses, names, `.suffix` or `*`, each optionally with `:port`.
pub(crate) fn destinations(node: &Node, _: &Folders) -> Result<Vec<String>, Refusal> {
    let mut destinations = Vec::new();
    for (text, span) in items_of(node)? {
        if text.is_empty() {
            continue;
        }
        if let Err(error) = text.parse::<Destination>() {
            return Err(Refusal::new(span, format!("`{text}`: {error}")).help(DESTINATION_FORMS));
        }
        if !destinations.contains(&text) {
            destinations.push(text);
        }
    }
    Ok(destinations)
}

/// A list of ports to publish, as `HOST:GUEST` or `ADDRESS:HOST:GUEST`.
pub(crate) fn ports(node: &Node, _: &Folders) -> Result<Vec<String>, Refusal> {
    let mut ports = Vec::new();
    for (text, span) in items_of(node)? {
        let port: PortForward =
            text.parse().map_err(|error: InvalidPort| Refusal::new(span, error.to_string()))?;
        if !ports.contains(&port.to_string()) {
            ports.push(port.to_string());
        }
    }
    Ok(ports)
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

//! What stays closed whatever a wide entry or a profile opens.
//!
//! Reaching the host is one power with one spelling, `host`; so the host's other addresses are closed,
//! and those that mean "this machine" to the host's own kernel: a guest with a raw socket may send to
//! 127.0.0.1, and the engine would connect where the packet says. Metadata services hand out the machine's
//! credentials. An entry that lies inside one of these networks was written for it and opens it.

use std::net::IpAddr;

use ipnetwork::IpNetwork;

/// Networks, and what to call them in a message.
const FIXED: [(&str, &str); 8] = [
    ("0.0.0.0/8", "the host itself"),
    ("127.0.0.0/8", "the host's loopback"),
    ("::/96", "the host's loopback"),
    ("169.254.0.0/16", "link-local addresses, the metadata service among them"),
    ("fe80::/10", "link-local addresses"),
    ("fd00:ec2::254/128", "a metadata service"),
    ("100.100.100.200/32", "a metadata service"),
    // Another spelling of every IPv4 address, which a host with a 6to4 tunnel would follow.
    ("2002::/16", "6to4 addresses"),
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Closed {
    pub net: IpNetwork,
    pub what: &'static str,
}

/// The floor of a host with these addresses on its interfaces, behind these gateway addresses.
pub(crate) fn floor(gateways: [IpNetwork; 2], local: &[IpAddr]) -> Vec<Closed> {
    let fixed = FIXED.iter().filter_map(|(net, what)| Some(Closed { net: net.parse().ok()?, what }));
    let own = gateways.into_iter().map(|net| Closed { net, what: "the host" });
    let local =
        local.iter().map(|address| Closed { net: (*address).into(), what: "an address of the host itself" });
    own.chain(fixed).chain(local).collect()
}

/// Whether `net` lies inside a closed network as a whole.
pub(crate) fn is_inside(floor: &[Closed], net: &IpNetwork) -> bool {
    floor.iter().any(|closed| closed.net.prefix() <= net.prefix() && closed.net.contains(net.network()))
}

/// The addresses of this machine's interfaces, as they are now. One that comes later is not known to a
/// bridge that already runs.
pub(crate) fn local_addresses() -> Vec<IpAddr> {
    let interfaces = nix::ifaddrs::getifaddrs().into_iter().flatten();
    let mut addresses: Vec<IpAddr> = interfaces
        .filter_map(|interface| {
            let address = interface.address?;
            let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
            v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))
        })
        .filter(|address| !address.is_loopback())
        .collect();
    addresses.sort();
    addresses.dedup();
    addresses
}

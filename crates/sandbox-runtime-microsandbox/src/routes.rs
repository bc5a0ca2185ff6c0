//! Which addresses a guest gets: what `msb` makes of this computer's ways out, for which it has no option.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

/// The addresses to which `msb` looks for a way. Both are for documentation, and nothing is sent.
const LOOKED_FOR: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1))];

/// For which versions of IP this computer knows a way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Routes {
    pub ipv4: bool,
    pub ipv6: bool,
}

impl Routes {
    /// As they are now; a machine that runs keeps the addresses that it got.
    pub fn of_this_computer() -> Self {
        let [ipv4, ipv6] = LOOKED_FOR.map(leads_to);
        Self { ipv4, ipv6 }
    }

    /// What a sandbox that may reach something goes without.
    pub fn missing(self) -> Option<&'static str> {
        match self {
            Self { ipv4: true, .. } => None,
            Self { ipv6: true, .. } => Some(
                "this computer has no route over IPv4, so microsandbox gives the sandbox no IPv4 address: it reaches \
                 IPv6 alone, and this computer's own services; with QEMU it has both",
            ),
            _ => Some(
                "this computer has no route, so microsandbox gives the sandbox no address: it reaches nothing, not \
                 even this computer; with QEMU it has one",
            ),
        }
    }
}

fn leads_to(address: IpAddr) -> bool {
    let any: IpAddr =
        if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    UdpSocket::bind((any, 0)).and_then(|socket| socket.connect((address, 443))).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_told_and_nothing_else() {
        let missing = |ipv4, ipv6| Routes { ipv4, ipv6 }.missing();
        assert_eq!(missing(true, true), None);
        assert_eq!(missing(true, false), None, "IPv6 is there where this computer has it");
        assert!(missing(false, true).is_some_and(|text| text.contains("no IPv4 address")));
        assert!(missing(false, false).is_some_and(|text| text.contains("no address")));
    }

    #[test]
    fn a_way_is_found_where_there_is_one_for_certain() {
        assert!(leads_to(Ipv4Addr::LOCALHOST.into()));
        assert!(!leads_to(Ipv4Addr::BROADCAST.into()), "a socket has to ask for that first");
    }
}

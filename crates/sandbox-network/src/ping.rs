//! Pings: what is one, and which are answered.

use std::net::{IpAddr, Ipv4Addr};

use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, socket};

use crate::watch::packet;

/// The destination of a frame that asks for an echo.
pub(crate) fn echo(frame: &[u8]) -> Option<IpAddr> {
    let (number, to, message) = packet(frame)?;
    // A guest that asks all its neighbours has none.
    if to.is_multicast() || to == IpAddr::V4(Ipv4Addr::BROADCAST) {
        return None;
    }
    matches!((number, message.first()?, to), (1, 8, IpAddr::V4(_)) | (58, 128, IpAddr::V6(_))).then_some(to)
}

/// Whether pings that the policy allows are answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pings {
    v4: bool,
}

impl Pings {
    /// As this process finds it now: the engine looks once, too.
    pub fn probe() -> Self {
        let flags = SockFlag::SOCK_CLOEXEC;
        Self { v4: socket(AddressFamily::Inet, SockType::Datagram, flags, SockProtocol::Icmp).is_ok() }
    }

    /// Why one that is allowed has no answer. The host itself is not asked: the engine answers in its place.
    pub const fn problem(self, to: IpAddr) -> Option<&'static str> {
        match to {
            // The engine looks at the answer's checksum with the guest's address, and it has the host's.
            IpAddr::V6(_) => Some("answers of IPv6 do not arrive"),
            IpAddr::V4(_) if self.v4 => None,
            IpAddr::V4(_) => Some("this host lets no ordinary user ping (net.ipv4.ping_group_range)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_echo_request_is_a_ping_and_nothing_else_is() {
        let v4 = |protocol: u8, kind: u8, to: [u8; 4]| {
            let mut frame = vec![0; 14 + 20 + 8];
            frame[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
            frame[23] = protocol;
            frame[30..34].copy_from_slice(&to);
            frame[34] = kind;
            echo(&frame)
        };
        assert_eq!(v4(1, 8, [10, 0, 0, 1]), Some(IpAddr::from([10, 0, 0, 1])));
        assert_eq!(v4(1, 0, [10, 0, 0, 1]), None, "an answer");
        assert_eq!(v4(17, 8, [10, 0, 0, 1]), None, "a datagram");
        assert_eq!(v4(1, 8, [224, 0, 0, 1]), None, "all hosts");
        let v6 = |kind: u8| {
            let mut frame = vec![0; 14 + 40 + 8];
            frame[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
            frame[20] = 58;
            frame[53] = 1;
            frame[54] = kind;
            echo(&frame)
        };
        assert_eq!(v6(128), Some("::1".parse().unwrap()));
        assert_eq!(v6(135), None, "a guest that looks for its gateway");
    }
}

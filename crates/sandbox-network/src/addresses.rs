use std::net::{Ipv4Addr, Ipv6Addr};

use ipnetwork::IpNetwork;

/// The last slot. Higher ones would leave `172.16.0.0/16`, and what follows is what Docker takes inside
/// the guest.
pub const MAX_SLOT: u16 = 16_383;

/// The addresses of one slot. Guests never see each other, so several may have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuestAddresses {
    /// The guest's own.
    pub guest_ipv4: Ipv4Addr,
    /// The host, as the guest sees it: a connection to it ends at the host's loopback.
    pub gateway_ipv4: Ipv4Addr,
    /// The same, for IPv6.
    pub gateway_ipv6: Ipv6Addr,
}

impl GuestAddresses {
    /// `slot` is at most [`MAX_SLOT`].
    pub fn of(slot: u16) -> Self {
        let block = u32::from(Ipv4Addr::new(172, 16, 0, 0)) + 4 * u32::from(slot);
        Self {
            guest_ipv4: Ipv4Addr::from(block + 2),
            gateway_ipv4: Ipv4Addr::from(block + 1),
            gateway_ipv6: Ipv6Addr::new(0xfd42, 0x6d73, 0x62, slot, 0, 0, 0, 1),
        }
    }

    /// The block's own address, which nobody in it has.
    pub(crate) fn nobody_ipv4(self) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(self.gateway_ipv4) - 1)
    }

    pub(crate) fn gateways(self) -> [IpNetwork; 2] {
        [std::net::IpAddr::from(self.gateway_ipv4).into(), std::net::IpAddr::from(self.gateway_ipv6).into()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_have_blocks_of_four() {
        let seven = GuestAddresses::of(7);
        assert_eq!(seven.guest_ipv4.to_string(), "172.16.0.30");
        assert_eq!(seven.gateway_ipv4.to_string(), "172.16.0.29");
        assert_eq!(seven.gateway_ipv6.to_string(), "fd42:6d73:62:7::1");
        assert_eq!(GuestAddresses::of(MAX_SLOT).guest_ipv4.to_string(), "172.16.255.254");
    }
}

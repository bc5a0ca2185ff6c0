use std::io;

use nix::net::if_::if_nametoindex;
use sandbox_wire::BootNetwork;

use super::netlink::{Routing, add_address, add_default_route, link_up};
use super::{addresses, step};
use crate::machine::{BootError, Steps};

const CARD: &str = "eth0";
const LOOPBACK: &str = "lo";
/// Nobody advertises routers here, so asking for them only takes time and traffic.
const IPV6_QUIET: [(&str, &str); 3] = [("accept_ra", "0"), ("autoconf", "0"), ("accept_dad", "0")];

/// Brings the loopback up and, with a network, the card.
pub fn configure(network: Option<&BootNetwork>, steps: &Steps) -> Result<(), BootError> {
    let routing = step(steps, "opening the routing socket", Routing::open)?;
    step(steps, "bringing up the loopback", || routing.ask(link_up(if_nametoindex(LOOPBACK)?, None)))?;
    let Some(network) = network else { return Ok(()) };
    let wanted = addresses::parse(network)?;
    let card = step(steps, format!("bringing up {CARD}"), || {
        for (setting, value) in IPV6_QUIET {
            // A kernel without IPv6 has no such file.
            let _ = fs_err::write(format!("/proc/sys/net/ipv6/conf/{CARD}/{setting}"), value);
        }
        let card = if_nametoindex(CARD)?;
        routing.ask(link_up(card, (network.mtu > 0).then_some(network.mtu)))?;
        Ok(card)
    })?;
    for (interface, gateway) in wanted {
        step(steps, format!("giving {CARD} the address {}", interface.address), || {
            routing.ask(add_address(card, interface))
        })?;
        if let Some(gateway) = gateway {
            step(steps, format!("routing by {gateway}"), || -> io::Result<()> {
                routing.ask(add_default_route(card, gateway))
            })?;
        }
    }
    Ok(())
}

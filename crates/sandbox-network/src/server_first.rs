//! Protocols in which the server speaks first.
//!
//! Where a rule for a name is to decide, the engine keeps a connection for 5 seconds before it makes its own, to hear
//! which host it is for. A client of these protocols says nothing in that time. So their ports are decided by
//! addresses wherever that gives the same answer: no rule that denies a name is asked there, and none that allows
//! one before those of addresses.

use microsandbox_network::policy::{Action, Destination, PortRange, Rule};

/// FTP, SSH, SMTP, POP3, IMAP, mail submission, MySQL; in their order.
const PORTS: [u16; 7] = [21, 22, 25, 110, 143, 587, 3306];

/// Whether the server speaks first at this port.
pub(crate) fn is_usual(port: u16) -> bool {
    PORTS.contains(&port)
}

/// Spares these ports what denies a name at every port. It does not resolve, so that no address is known by it, and
/// what a connection says first is all that there is to look at.
pub(crate) fn spare(rule: &mut Rule) {
    let is_name = matches!(rule.destination, Destination::Domain(_) | Destination::DomainSuffix(_));
    if rule.action == Action::Deny && is_name && rule.ports.is_empty() {
        rule.ports = other_ports();
    }
}

/// Every port but these.
fn other_ports() -> Vec<PortRange> {
    let after = PORTS.iter().map(|port| port + 1);
    let before = PORTS.iter().map(|port| port - 1);
    let begins = std::iter::once(0).chain(after);
    let ends = before.chain(std::iter::once(u16::MAX));
    begins
        .zip(ends)
        .filter(|(begin, end)| begin <= end)
        .map(|(begin, end)| PortRange::range(begin, end))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_port_is_one_or_the_other() {
        let others = other_ports();
        for port in 0..=u16::MAX {
            let is_other = others.iter().any(|range| range.contains(port));
            assert_eq!(is_other, !is_usual(port), "{port}");
        }
    }
}

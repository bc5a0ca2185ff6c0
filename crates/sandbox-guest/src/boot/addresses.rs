use std::net::IpAddr;

use sandbox_wire::BootNetwork;

use crate::machine::BootError;

/// An address with the size of its network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interface {
    pub address: IpAddr,
    pub prefix: u8,
}

/// The addresses of a boot configuration, checked. One entry per family that is configured.
pub fn parse(network: &BootNetwork) -> Result<Vec<(Interface, Option<IpAddr>)>, BootError> {
    let families = [(&network.ipv4, &network.ipv4_gateway, 32), (&network.ipv6, &network.ipv6_gateway, 128)];
    let mut parsed = Vec::new();
    for (interface, gateway, bits) in families {
        let Some(interface) = interface else { continue };
        let interface = parse_interface(interface, bits)
            .ok_or_else(|| invalid(interface, "an address with the length of its prefix"))?;
        let gateway = match gateway {
            None => None,
            Some(text) => match text.parse::<IpAddr>() {
                Ok(gateway) if gateway.is_ipv4() == interface.address.is_ipv4() => Some(gateway),
                _ => return Err(invalid(text, "an address of the same family")),
            },
        };
        parsed.push((interface, gateway));
    }
    Ok(parsed)
}

fn parse_interface(text: &str, bits: u8) -> Option<Interface> {
    let (address, prefix) = text.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let prefix: u8 = prefix.parse().ok()?;
    (prefix <= bits && address.is_ipv4() == (bits == 32)).then_some(Interface { address, prefix })
}

fn invalid(value: &str, wanted: &'static str) -> BootError {
    BootError::Address { step: "configuring the network".into(), value: value.into(), wanted }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(ipv4: &str, gateway: &str, ipv6: Option<&str>) -> BootNetwork {
        BootNetwork {
            ipv4: Some(ipv4.into()),
            ipv4_gateway: Some(gateway.into()),
            ipv6: ipv6.map(str::to_owned),
            ipv6_gateway: None,
            mtu: 1500,
            nameservers: Vec::new(),
            hosts: Vec::new(),
            extra_ca_pem: None,
        }
    }

    #[test]
    fn both_families_parse() {
        let parsed = parse(&network("192.0.2.2/24", "192.0.2.1", Some("2001:db8::2/64"))).unwrap();
        assert_eq!(parsed.len(), 2);
        assert_eq!(parsed[0].0, Interface { address: "192.0.2.2".parse().unwrap(), prefix: 24 });
        assert_eq!(parsed[0].1, Some("192.0.2.1".parse().unwrap()));
        assert_eq!(parsed[1].1, None);
    }

    #[test]
    fn what_is_no_address_is_named() {
        for (ipv4, gateway, culprit) in [
            ("192.0.2.2", "192.0.2.1", "192.0.2.2"),
            ("192.0.2.2/33", "192.0.2.1", "192.0.2.2/33"),
            ("2001:db8::2/24", "192.0.2.1", "2001:db8::2/24"),
            ("192.0.2.2/24", "2001:db8::1", "2001:db8::1"),
        ] {
            let error = parse(&network(ipv4, gateway, None)).unwrap_err().to_string();
            assert!(error.contains(&format!("{culprit:?}")), "{error}");
        }
    }
}

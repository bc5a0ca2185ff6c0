//! Whether the ports of this computer that are to be published are free.

use std::io::{Error, ErrorKind};
use std::net::{SocketAddr, TcpListener};

use sandbox_model::PortForward;

use super::port_holder::{PortHolder, holder, overlap};
use crate::{Context, LifecycleError, Result};

/// Fails where another program has one of the wanted ports, before anything is ended for them. Those that
/// the sandbox itself has just now, `own`, are its own.
pub fn check(context: &Context<'_>, wanted: &[PortForward], own: &[PortForward]) -> Result<()> {
    match refused(wanted, own) {
        None => Ok(()),
        Some((address, error)) if error.kind() == ErrorKind::AddrInUse => {
            Err(LifecycleError::PortTaken { address, holder: Box::new(holder(context, address)) })
        }
        Some((address, error)) => Err(refusal(address, &error)),
    }
}

/// [`check`] for ports that are opened beside those that the sandbox goes on to have: it cannot publish an address
/// twice.
pub fn check_beside(context: &Context<'_>, open: &[PortForward], own: &[PortForward]) -> Result<()> {
    for (at, port) in open.iter().enumerate().filter(|(_, port)| !own.contains(port)) {
        let asked = open[..at].iter().filter(|other| *other != port);
        if let Some((address, other)) = clash(port, asked) {
            return Err(LifecycleError::PortTaken { address, holder: Box::new(PortHolder::Asked(other)) });
        }
        if let Some((address, _)) = clash(port, own) {
            return Err(LifecycleError::PortTaken { address, holder: Box::new(holder(context, address)) });
        }
    }
    check(context, open, own)
}

/// Where `port` would listen and one of the others does.
fn clash<'a>(
    port: &PortForward,
    others: impl IntoIterator<Item = &'a PortForward>,
) -> Option<(SocketAddr, PortForward)> {
    let addresses = port.addresses();
    others.into_iter().find_map(|other| {
        let taken = other.addresses();
        let meets = |address: &&SocketAddr| taken.iter().any(|taken| overlap(**address, *taken));
        addresses.iter().find(meets).map(|address| (*address, *other))
    })
}

/// The first address that cannot be had.
fn refused(wanted: &[PortForward], own: &[PortForward]) -> Option<(SocketAddr, Error)> {
    let owned: Vec<_> = own.iter().flat_map(PortForward::addresses).collect();
    for port in wanted {
        for address in port.addresses().into_iter().filter(|address| !owned.contains(address)) {
            match TcpListener::bind(address) {
                Err(error) if matters(error.kind(), port) => return Some((address, error)),
                Ok(_) | Err(_) => {}
            }
        }
    }
    None
}

/// A host without IPv6 has only one loopback.
const fn matters(kind: ErrorKind, port: &PortForward) -> bool {
    port.bind.is_some() || matches!(kind, ErrorKind::AddrInUse | ErrorKind::PermissionDenied)
}

fn refusal(address: SocketAddr, error: &Error) -> LifecycleError {
    if error.kind() == ErrorKind::PermissionDenied {
        let first = fs_err::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
        let first = first.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(1024);
        return LifecycleError::PrivilegedPort { address, first };
    }
    LifecycleError::Port { address, problem: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_of_another_program_is_named_and_ones_own_is_not() {
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        let taken: PortForward = format!("{}:80", other.local_addr().unwrap().port()).parse().unwrap();
        let (address, error) = refused(&[taken], &[]).unwrap();
        assert_eq!((address, error.kind()), (other.local_addr().unwrap(), ErrorKind::AddrInUse));
        assert!(refused(&[taken], &[taken]).is_none());
        drop(other);
        assert!(refused(&[taken], &[]).is_none());
    }

    #[test]
    fn a_port_that_is_taken_on_the_other_loopback_alone_is_taken() {
        let other = TcpListener::bind("[::1]:0").unwrap();
        let taken: PortForward = format!("{}:80", other.local_addr().unwrap().port()).parse().unwrap();
        assert_eq!(refused(&[taken], &[]).unwrap().0, other.local_addr().unwrap());
        let first = PortForward { bind: Some(std::net::Ipv4Addr::LOCALHOST.into()), ..taken };
        assert!(refused(&[first], &[]).is_none());
    }

    #[test]
    fn one_address_leads_to_one_port_alone() {
        let port = |text: &str| text.parse::<PortForward>().unwrap();
        let own = [port("1:1"), port("8080:80")];
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        let clashes = |text: &str| clash(&port(text), &own);
        assert_eq!(clashes("8080:81"), Some((address("127.0.0.1:8080"), own[1])));
        assert_eq!(clashes("0.0.0.0:8080:80"), Some((address("0.0.0.0:8080"), own[1])));
        assert_eq!(clashes("8081:80"), None);
        assert_eq!(clashes("192.0.2.1:8080:80"), None);
    }

    #[test]
    fn a_port_of_roots_is_said_to_be_one() {
        let address = "127.0.0.1:80".parse().unwrap();
        let error = refusal(address, &ErrorKind::PermissionDenied.into());
        assert!(matches!(error, LifecycleError::PrivilegedPort { .. }), "{error}");
        let said = error.to_string();
        assert!(said.starts_with("port 127.0.0.1:80 cannot be published: ports below "), "{said}");
        let port: PortForward = "80:80".parse().unwrap();
        assert!(matters(ErrorKind::PermissionDenied, &port) && !matters(ErrorKind::AddrNotAvailable, &port));
    }
}

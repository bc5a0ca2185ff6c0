//! Whether the ports of this computer that are to be published are free.

use std::io::{Error, ErrorKind};
use std::net::{SocketAddr, TcpListener};

use sandbox_model::PortForward;

use crate::{LifecycleError, Result};

/// Fails where another program has one of the wanted ports, before anything is ended for them. Those that
/// the sandbox itself has just now, `own`, are its own.
pub fn check(wanted: &[PortForward], own: &[PortForward]) -> Result<()> {
    let owned: Vec<_> = own.iter().flat_map(PortForward::addresses).collect();
    for port in wanted {
        for address in port.addresses().into_iter().filter(|address| !owned.contains(address)) {
            match TcpListener::bind(address) {
                Err(error) if matters(error.kind(), port) => return Err(refusal(address, &error)),
                Ok(_) | Err(_) => {}
            }
        }
    }
    Ok(())
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
        let error = check(&[taken], &[]).unwrap_err().to_string();
        assert!(error.contains(&other.local_addr().unwrap().to_string()), "{error}");
        check(&[taken], &[taken]).unwrap();
        drop(other);
        check(&[taken], &[]).unwrap();
    }

    #[test]
    fn a_port_that_is_taken_on_the_other_loopback_alone_is_taken() {
        let other = TcpListener::bind("[::1]:0").unwrap();
        let taken: PortForward = format!("{}:80", other.local_addr().unwrap().port()).parse().unwrap();
        let error = check(&[taken], &[]).unwrap_err().to_string();
        assert!(error.contains(&other.local_addr().unwrap().to_string()), "{error}");
        let first = PortForward { bind: Some(std::net::Ipv4Addr::LOCALHOST.into()), ..taken };
        check(&[first], &[]).unwrap();
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

//! Whether the ports of this computer that are to be published are free.

use std::io::ErrorKind;
use std::net::TcpListener;

use sandbox_model::PortForward;

use crate::{LifecycleError, Result};

/// Fails where another program has one of the wanted ports, before anything is ended for them. Those that
/// the sandbox itself has just now, `own`, are its own.
pub fn check(wanted: &[PortForward], own: &[PortForward]) -> Result<()> {
    let owned: Vec<_> = own.iter().flat_map(PortForward::addresses).collect();
    for port in wanted {
        for address in port.addresses().into_iter().filter(|address| !owned.contains(address)) {
            match TcpListener::bind(address) {
                // A host without IPv6 has only one loopback.
                Err(error) if error.kind() == ErrorKind::AddrInUse || port.bind.is_some() => {
                    return Err(LifecycleError::Port { address, problem: error.to_string() });
                }
                Ok(_) | Err(_) => {}
            }
        }
    }
    Ok(())
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
}

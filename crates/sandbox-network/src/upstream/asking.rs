//! Whether a proxy is asked for a name, or for the address that the policy has judged.

use std::net::IpAddr;
use std::sync::Arc;

use sandbox_model::ProxyUrl;

use crate::compile::Compiled;

/// A proxy that is asked for a name looks it up for itself, and may find another address than the policy saw: names
/// can lead anywhere. A proxy elsewhere reaches what it reaches. One on this host reaches the host's own services,
/// which are closed to a guest: it gets only such names as the user wrote down.
pub(super) struct Asking {
    pub policy: Arc<Compiled>,
    /// This host's addresses.
    pub own: Vec<IpAddr>,
}

impl Asking {
    pub fn by_name(&self, proxy: &ProxyUrl, name: &str) -> bool {
        !self.is_here(proxy) || self.policy.lists_name(name)
    }

    fn is_here(&self, proxy: &ProxyUrl) -> bool {
        proxy.is_loopback() || proxy.host.parse().is_ok_and(|address| self.own.contains(&address))
    }
}

#[cfg(test)]
mod tests {
    use sandbox_model::{Destination, NetworkPolicy, NetworkProfile};

    use super::*;
    use crate::GuestAddresses;
    use crate::compile::compile;

    #[test]
    fn a_proxy_on_this_host_gets_only_names_that_are_written_down() {
        let allowed: Destination = ".example.com".parse().unwrap();
        let policy = NetworkPolicy {
            profile: NetworkProfile::Public,
            egress_allow: vec![allowed.to_string()],
            ..NetworkPolicy::default()
        };
        let own: Vec<IpAddr> = vec!["192.0.2.7".parse().unwrap()];
        let policy = Arc::new(compile(&policy, GuestAddresses::of(0), &own).unwrap());
        let asking = Asking { policy, own };
        let by_name = |proxy: &str, name| asking.by_name(&proxy.parse().unwrap(), name);
        for here in ["127.0.0.1:3128", "localhost:3128", "socks5h://[::1]:1080", "192.0.2.7:3128"] {
            assert!(!by_name(here, "anywhere.example"), "{here}");
            assert!(by_name(here, "a.example.com"), "{here}");
        }
        for elsewhere in ["192.0.2.8:3128", "proxy.corp.example:3128"] {
            assert!(by_name(elsewhere, "anywhere.example"), "{elsewhere}");
        }
    }
}

//! The policy's rules, for an engine whose names another process resolves.

use sandbox_model::SecretSpec;
use sandbox_network::tls_ports;

/// Whatever is asked by name gets to the resolver, which knows the policy, answers what it denies, and keeps a record of it. The
/// rules by name go on to count for connections: the engine learns from answers which addresses a name has.
const NAMES: &str = "allow@dns";
/// The addresses that stand for names which the host cannot resolve, as answers of the resolver: without a rule that could
/// open them, the engine takes such an answer for an attack. No datagram to one passes the relay, so that this opens nothing.
/// There are none where the host needs no proxy, and datagrams pass there.
pub const PLACEHOLDERS: &str = "allow@198.19.0.0/17:udp";

/// `rules` in words of `msb create --net-rule`, for a sandbox with these secrets.
pub fn by_the_resolver(rules: &[String], secrets: &[SecretSpec]) -> Vec<String> {
    let others = rules.iter().filter(|rule| *rule != NAMES).cloned();
    std::iter::once(NAMES.to_string()).chain(without_datagrams(secrets)).chain(others).collect()
}

/// TLS over UDP (HTTP/3) would pass by whoever puts secrets in.
fn without_datagrams(secrets: &[SecretSpec]) -> Vec<String> {
    let ports = if secrets.is_empty() { Vec::new() } else { tls_ports(secrets) };
    ports.into_iter().map(|port| format!("deny@any:udp:{port}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_secrets_go_through_is_closed_to_datagrams_before_anything_is_open() {
        let secret = SecretSpec {
            name: "TOKEN".into(),
            hosts: vec!["api.example.com".parse().unwrap(), "git.example.com:8443".parse().unwrap()],
            headers: vec!["authorization".into()],
            query: false,
            body: false,
            fingerprint: "f".into(),
        };
        let words = by_the_resolver(&["allow@public".into()], &[secret]);
        assert_eq!(words, ["allow@dns", "deny@any:udp:443", "deny@any:udp:8443", "allow@public"]);
    }

    #[test]
    fn every_name_reaches_the_resolver_and_rules_by_name_stay() {
        let rules =
            ["deny@domain=bad.example.com", "allow@dns", "deny@[2002::/16]", "allow@domain=a.example"];
        let words = by_the_resolver(&rules.map(String::from), &[]);
        assert_eq!(
            words,
            ["allow@dns", "deny@domain=bad.example.com", "deny@[2002::/16]", "allow@domain=a.example"]
        );
    }

    /// Where a guest had its own address in there, names could not be reached.
    #[test]
    fn no_guest_has_an_address_that_stands_for_a_name() {
        let pool: ipnetwork::Ipv4Network = crate::ADDRESS_POOLS[0].parse().unwrap();
        assert!(!pool.contains([198, 19, 0, 0].into()) && !pool.contains([198, 19, 127, 255].into()));
    }
}

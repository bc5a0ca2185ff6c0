//! The same rules as words of a command line, for a runtime that has the engine in a program of its own.

use ipnetwork::IpNetwork;
use microsandbox_network::policy::{Action, Destination, DestinationGroup, PortRange, Rule};
use sandbox_model::NetworkPolicy;

use crate::compile::{check, needs_card, rules};
use crate::entry::PolicyError;
use crate::floor::local_addresses;

/// The policy as the rules of microsandbox's `--net-rule`, first match first; `None` where the guest reaches
/// nothing.
///
/// `pools` are the networks out of which that runtime gives addresses to guests and to the gateways that
/// mean the host; nothing else should have an address in them.
pub fn rule_tokens(
    policy: &NetworkPolicy,
    pools: [IpNetwork; 2],
) -> Result<Option<Vec<String>>, PolicyError> {
    check(policy)?;
    if !needs_card(policy) {
        return Ok(None);
    }
    let rules = rules(policy, pools, &local_addresses())?;
    Ok(Some(rules.iter().flat_map(|(rule, _)| tokens(rule)).collect()))
}

/// One word per rule and port range.
fn tokens(rule: &Rule) -> Vec<String> {
    // The host group is only ever there for the resolver; the host itself is written as its addresses.
    if matches!(rule.destination, Destination::Group(DestinationGroup::Host)) {
        return vec!["allow@dns".into()];
    }
    let action = match rule.action {
        Action::Allow => "allow",
        Action::Deny => "deny",
    };
    let target = match &rule.destination {
        Destination::Any => "any".into(),
        Destination::Cidr(net) if net.is_ipv6() => format!("[{net}]"),
        Destination::Cidr(net) => net.to_string(),
        Destination::Domain(name) => format!("domain={name}"),
        Destination::DomainSuffix(name) => format!("suffix={name}"),
        Destination::Group(group) => word(*group).into(),
    };
    let whole = format!("{action}@{target}");
    if rule.ports.is_empty() {
        return vec![whole];
    }
    rule.ports.iter().map(|range| format!("{whole}:any:{}", ports(*range))).collect()
}

fn ports(range: PortRange) -> String {
    if range.start == range.end { range.start.to_string() } else { format!("{}-{}", range.start, range.end) }
}

fn word(group: DestinationGroup) -> &'static str {
    match group {
        DestinationGroup::Public => "public",
        DestinationGroup::Loopback => "loopback",
        DestinationGroup::Private => "private",
        DestinationGroup::LinkLocal => "link-local",
        DestinationGroup::Metadata => "metadata",
        DestinationGroup::Multicast => "multicast",
        DestinationGroup::Host => "host",
    }
}

#[cfg(test)]
mod tests {
    use sandbox_model::NetworkProfile;

    use super::*;

    fn written(profile: NetworkProfile, allow: &[&str], deny: &[&str]) -> Option<Vec<String>> {
        let list = |words: &[&str]| words.iter().map(ToString::to_string).collect();
        let policy = NetworkPolicy {
            profile,
            egress_allow: list(allow),
            egress_deny: list(deny),
            dns_servers: Vec::new(),
        };
        let pools = ["198.18.0.0/15".parse().unwrap(), "fd42:6d73:62::/48".parse().unwrap()];
        rule_tokens(&policy, pools).unwrap()
    }

    #[test]
    fn nothing_is_no_rule_at_all() {
        assert_eq!(written(NetworkProfile::None, &[], &["example.com"]), None);
    }

    #[test]
    fn denials_come_before_the_floor_and_the_floor_before_what_is_open() {
        let allow = ["host:8080", "10.1.0.0/16:22", "[2001:db8::1]:443", ".example.com"];
        let words = written(NetworkProfile::Public, &allow, &["bad.example.com", "192.0.2.0/24"]).unwrap();
        let place = |word: &str| {
            words.iter().position(|known| known == word).unwrap_or_else(|| panic!("no {word} in {words:?}"))
        };
        let order = [
            "deny@domain=bad.example.com",
            "allow@dns",
            "deny@192.0.2.0/24",
            "allow@198.18.0.0/15:any:8080",
            "allow@[fd42:6d73:62::/48]:any:8080",
            "deny@198.18.0.0/15",
            "deny@[2002::/16]",
            "allow@10.1.0.0/16:any:22",
            "allow@[2001:db8::1/128]:any:443",
            "allow@public",
            "allow@suffix=example.com",
        ];
        assert!(order.map(place).is_sorted(), "{words:?}");
        assert_eq!(words.last().map(String::as_str), Some("allow@suffix=example.com"));
    }
}

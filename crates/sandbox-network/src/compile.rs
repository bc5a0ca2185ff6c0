//! From the settings to the engine's rules.
//!
//! The engine takes the first rule that matches. The order, and why:
//! 1. denied names and `*`: before anything, because a name that may not be reached shall not resolve
//! 2. the resolver, where names resolve in general (a profile, or `*`); without it only names with a rule do
//! 3. denied addresses, and names denied for one port only: these may resolve
//! 4. allowed: the host, and whatever lies inside the floor
//! 5. the floor ([`crate::floor`])
//! 6. everything else that is allowed, then the profile's class
//!
//! The host is written as its gateway addresses and never as the engine's host group, because a rule of
//! that group also decides about the resolver. `*` is the public and the private class for the same reason as
//! there is a floor.

use std::net::{IpAddr, SocketAddr};

use microsandbox_network::config::{ConnectionLimit, DnsConfig, InterfaceOverrides, NetworkConfig};
use microsandbox_network::dns::Nameserver;
use microsandbox_network::policy::{self as engine, Action, Destination, DestinationGroup, Direction, Rule};
use microsandbox_network::shared::SharedState;
use sandbox_model::{NetworkPolicy, NetworkProfile};

use crate::entry::{EgressList, Entry, PolicyError, Target};
use crate::floor::{Closed, floor, is_inside};
use crate::{GuestAddresses, HOST_NAMES};

/// The most connections of one guest at once, TCP and UDP each: a guest must not eat the host's memory.
const MAX_CONNECTIONS: usize = 4096;

/// Why a rule is there, for whoever asks why something was denied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    Denied(String),
    Floor(&'static str),
    Open,
}

/// A policy ready for the engine, each rule with its origin.
#[derive(Debug, Clone)]
pub(crate) struct Compiled {
    profile: NetworkProfile,
    rules: Vec<(Rule, Origin)>,
    nameservers: Vec<Nameserver>,
    addresses: GuestAddresses,
}

/// Whether a guest with this policy needs a network card at all.
pub fn needs_card(policy: &NetworkPolicy) -> bool {
    policy.profile != NetworkProfile::None || entries(&policy.egress_allow).next().is_some()
}

/// The first mistake in the policy's lists, if there is one. Looks nothing up.
pub fn check(policy: &NetworkPolicy) -> Result<(), PolicyError> {
    compile(policy, GuestAddresses::of(0), &[]).map(drop)
}

/// Empty strings are nothing: a list that a variable fills may be empty.
fn entries(list: &[String]) -> impl Iterator<Item = &str> {
    list.iter().map(|text| text.trim()).filter(|text| !text.is_empty())
}

fn parsed(which: EgressList, list: &[String]) -> Result<Vec<(Entry, String)>, PolicyError> {
    entries(list).map(|text| Ok((Entry::parse(which, text)?, text.to_string()))).collect()
}

/// `local` are the addresses of the host's interfaces.
pub(crate) fn compile(
    policy: &NetworkPolicy,
    addresses: GuestAddresses,
    local: &[IpAddr],
) -> Result<Compiled, PolicyError> {
    let resolver = |entry: &str| entry.parse().map_err(|_| PolicyError::Resolver { entry: entry.into() });
    Ok(Compiled {
        profile: policy.profile,
        rules: rules(policy, addresses.gateways(), local)?,
        nameservers: entries(&policy.dns_servers).map(resolver).collect::<Result<_, _>>()?,
        addresses,
    })
}

/// `gateways` are the networks in which the guest's gateway addresses lie: the host.
pub(crate) fn rules(
    policy: &NetworkPolicy,
    gateways: [ipnetwork::IpNetwork; 2],
    local: &[IpAddr],
) -> Result<Vec<(Rule, Origin)>, PolicyError> {
    let denied = parsed(EgressList::Deny, &policy.egress_deny)?;
    let allowed = parsed(EgressList::Allow, &policy.egress_allow)?;
    let floor = floor(gateways, local);
    let mut rules = Rules { gateways, rules: Vec::new() };

    let is_name = |target: &Target| matches!(target, Target::Name(_) | Target::Suffix(_));
    let before_names =
        |entry: &Entry| entry.target == Target::Any || (is_name(&entry.target) && entry.port.is_none());
    for (entry, text) in denied.iter().filter(|(entry, _)| before_names(entry)) {
        rules.push(entry, Action::Deny, &Origin::Denied(text.clone()));
    }
    if policy.profile != NetworkProfile::None || allowed.iter().any(|(entry, _)| entry.target == Target::Any)
    {
        rules.rules.push((Rule::allow_dns(), Origin::Open));
    }
    for (entry, text) in denied.iter().filter(|(entry, _)| !before_names(entry)) {
        rules.push(entry, Action::Deny, &Origin::Denied(text.clone()));
    }
    let above_floor = |entry: &Entry| match &entry.target {
        Target::Host => true,
        Target::Net(net) => is_inside(&floor, net),
        Target::Name(_) | Target::Suffix(_) | Target::Any => false,
    };
    for (entry, _) in allowed.iter().filter(|(entry, _)| above_floor(entry)) {
        rules.push(entry, Action::Allow, &Origin::Open);
    }
    if policy.profile == NetworkProfile::Host {
        rules.push(&Entry { target: Target::Host, port: None }, Action::Allow, &Origin::Open);
    }
    for Closed { net, what } in &floor {
        rules.rule(Destination::Cidr(*net), Vec::new(), Action::Deny, &Origin::Floor(what));
    }
    for (entry, _) in allowed.iter().filter(|(entry, _)| !above_floor(entry)) {
        rules.push(entry, Action::Allow, &Origin::Open);
    }
    let class = match policy.profile {
        NetworkProfile::None | NetworkProfile::Host => None,
        NetworkProfile::Private => Some(DestinationGroup::Private),
        NetworkProfile::Public => Some(DestinationGroup::Public),
    };
    if let Some(group) = class {
        rules.rule(Destination::Group(group), Vec::new(), Action::Allow, &Origin::Open);
    }
    Ok(rules.rules)
}

struct Rules {
    gateways: [ipnetwork::IpNetwork; 2],
    rules: Vec<(Rule, Origin)>,
}

impl Rules {
    fn push(&mut self, entry: &Entry, action: Action, origin: &Origin) {
        let destinations = match &entry.target {
            Target::Host => self.gateways.map(Destination::Cidr).to_vec(),
            Target::Net(net) => vec![Destination::Cidr(*net)],
            Target::Name(name) => vec![Destination::Domain(name.clone())],
            Target::Suffix(name) => vec![Destination::DomainSuffix(name.clone())],
            Target::Any if action == Action::Deny => vec![Destination::Any],
            Target::Any => {
                [DestinationGroup::Public, DestinationGroup::Private].map(Destination::Group).to_vec()
            }
        };
        for destination in destinations {
            self.rule(destination, entry.ports(), action, origin);
        }
    }

    fn rule(
        &mut self,
        destination: Destination,
        ports: Vec<engine::PortRange>,
        action: Action,
        origin: &Origin,
    ) {
        let rule = Rule { direction: Direction::Egress, destination, protocols: Vec::new(), ports, action };
        self.rules.push((rule, origin.clone()));
    }
}

impl Compiled {
    pub fn engine_policy(&self) -> engine::NetworkPolicy {
        self.prefix(self.rules.len(), Action::Deny)
    }

    fn prefix(&self, count: usize, otherwise: Action) -> engine::NetworkPolicy {
        engine::NetworkPolicy {
            default_egress: otherwise,
            // Only published ports let anyone in, and publishing is the user's own setting.
            default_ingress: Action::Allow,
            rules: self.rules[..count].iter().map(|(rule, _)| rule.clone()).collect(),
        }
    }

    pub fn engine_config(&self) -> NetworkConfig {
        let limit = Some(ConnectionLimit::from(MAX_CONNECTIONS));
        NetworkConfig {
            interface: InterfaceOverrides {
                // Without it a host that has no default route gives the guest no address.
                ipv4_address: Some(self.addresses.guest_ipv4),
                // Larger ones than 9000 make downloads crawl; the guest is told the same number.
                mtu: Some(1500),
                ..InterfaceOverrides::default()
            },
            policy: self.engine_policy(),
            dns: DnsConfig { nameservers: self.nameservers.clone(), ..DnsConfig::default() },
            max_tcp_connections: limit,
            max_udp_connections: limit,
            ..NetworkConfig::default()
        }
    }

    /// What the engine's own evaluation asks about the guest's surroundings.
    pub fn state(&self) -> SharedState {
        let state = SharedState::new(1);
        state.set_gateway_ips(Some(self.addresses.gateway_ipv4), Some(self.addresses.gateway_ipv6));
        state.set_nat64_prefixes(NetworkConfig::default().nat64_prefixes);
        state
    }

    /// Why a first packet to `to` is denied; `None` when it is not, or when only a name that was
    /// resolved meanwhile could tell.
    pub fn why_denied(
        &self,
        to: SocketAddr,
        protocol: engine::Protocol,
        state: &SharedState,
    ) -> Option<String> {
        if self.engine_policy().evaluate_egress(to, protocol, state) == Action::Allow {
            return None;
        }
        let named =
            |rule: &Rule| matches!(rule.destination, Destination::Domain(_) | Destination::DomainSuffix(_));
        let first_name = self.rules.iter().position(|(rule, _)| named(rule) && rule.action == Action::Allow);
        let denies = |count: &usize| {
            self.prefix(*count, Action::Allow).evaluate_egress(to, protocol, state) == Action::Deny
        };
        match (1..=self.rules.len()).find(denies) {
            Some(count) if first_name.is_none_or(|first| count <= first) => {
                Some(self.reason(&self.rules[count - 1].1, || self.entry_for(to)))
            }
            None if first_name.is_none() => Some(self.reason(&Origin::Open, || self.entry_for(to))),
            _ => None,
        }
    }

    /// Why this name does not resolve; `None` when the policy lets it.
    pub fn why_unresolved(&self, name: &str) -> Option<String> {
        let domain: engine::DomainName = name.parse().ok()?;
        let action =
            |policy: engine::NetworkPolicy| policy.evaluate_dns_query(&domain, engine::Protocol::Udp, 53);
        if action(self.engine_policy()) == Action::Allow {
            return None;
        }
        let denying =
            (1..=self.rules.len()).find(|count| action(self.prefix(*count, Action::Allow)) == Action::Deny);
        let origin = denying.map_or(&Origin::Open, |count| &self.rules[count - 1].1);
        Some(self.reason(origin, || domain.as_str().to_string()))
    }

    fn entry_for(&self, to: SocketAddr) -> String {
        let ip = to.ip().to_canonical();
        let gateways = self.addresses.gateways();
        if ip.is_loopback() || ip.is_unspecified() || gateways.iter().any(|gateway| gateway.ip() == ip) {
            return format!("host:{}", to.port());
        }
        to.to_string()
    }

    fn reason(&self, origin: &Origin, entry: impl FnOnce() -> String) -> String {
        match origin {
            Origin::Denied(text) => format!("egress-deny has `{text}`"),
            Origin::Floor(what) => format!("{what}; egress-allow: [\"{}\"] would open it", entry()),
            Origin::Open => {
                let profile = self.profile;
                format!("outside of profile {profile}; egress-allow: [\"{}\"] would open it", entry())
            }
        }
    }

    /// Lines for the guest's `/etc/hosts`.
    pub fn hosts(&self, ipv6: bool) -> Vec<(String, String)> {
        let gateways = [
            Some(IpAddr::V4(self.addresses.gateway_ipv4)),
            ipv6.then_some(IpAddr::V6(self.addresses.gateway_ipv6)),
        ];
        let lines = gateways.into_iter().flatten();
        lines.flat_map(|gateway| HOST_NAMES.map(|name| (gateway.to_string(), name.to_string()))).collect()
    }
}

#[cfg(test)]
mod tests;

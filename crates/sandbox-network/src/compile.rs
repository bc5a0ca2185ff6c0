//! From the settings to the engine's rules.
//!
//! The engine takes the first rule that matches. The order, and why:
//! 1. denied names and `*`: before anything, because a name that may not be reached shall not resolve
//! 2. the resolver, where names resolve in general (a profile, or `*`); without it only names with a rule do
//! 3. denied addresses, and names denied for one port only: these may resolve
//! 4. allowed: the host, and whatever lies inside the floor
//! 5. the floor ([`crate::floor`])
//! 6. addresses that are allowed, then the profile's class, then names
//!
//! Names come last because a connection that reaches a rule for one waits for what it says first, while a server
//! that speaks first waits for nobody ([`crate::server_first`]).
//!
//! The host is written as its gateway addresses and never as the engine's host group, because a rule of
//! that group also decides about the resolver. `*` is the public and the private class for the same reason as
//! there is a floor.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use ipnetwork::IpNetwork;
use microsandbox_network::config::{ConnectionLimit, DnsConfig, InterfaceOverrides, NetworkConfig};
use microsandbox_network::dns::Nameserver;
use microsandbox_network::policy::{self as engine, Action, Destination, DestinationGroup, Direction, Rule};
use microsandbox_network::shared::SharedState;
use sandbox_model::{HOST_NAMES, NetworkPolicy, NetworkProfile};

use crate::GuestAddresses;
use crate::entry::{EgressList, Entry, PolicyError, Target};
use crate::floor::{Closed, floor, is_inside};
use crate::server_first;

/// The most connections of one guest at once, TCP and UDP each: a guest must not eat the host's memory.
const MAX_CONNECTIONS: usize = 4096;

/// Why a rule is there, for whoever asks why something was denied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    Denied(String),
    Floor(&'static str),
    Allowed(String),
    Profile(NetworkProfile),
    /// Names resolve.
    Names,
    /// What secrets are put in must be looked into.
    Secrets,
}

/// What the policy says about one destination, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decision {
    pub action: Action,
    /// For people.
    pub rule: String,
    /// The entry that would open what is denied and may be opened.
    pub opens: Option<String>,
}

/// A policy ready for the engine, each rule with its origin.
#[derive(Debug, Clone)]
pub(crate) struct Compiled {
    profile: NetworkProfile,
    rules: Vec<(Rule, Origin)>,
    /// Each rule alone, with the other action for whatever it does not match: the engine's own evaluation
    /// says which of them matches first.
    alone: Vec<engine::NetworkPolicy>,
    nameservers: Vec<Nameserver>,
    addresses: GuestAddresses,
    /// Where the guest's gateways are, behind which the host is.
    gateways: [IpNetwork; 2],
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
    compile_behind(policy, addresses, addresses.gateways(), local)
}

/// [`compile`] for a guest whose gateways are somewhere in these networks.
pub(crate) fn compile_behind(
    policy: &NetworkPolicy,
    addresses: GuestAddresses,
    gateways: [IpNetwork; 2],
    local: &[IpAddr],
) -> Result<Compiled, PolicyError> {
    let resolver = |entry: &str| entry.parse().map_err(|_| PolicyError::Resolver { entry: entry.into() });
    let mut rules = rules(policy, gateways, local)?;
    for (rule, _) in &mut rules {
        server_first::spare(rule);
    }
    Ok(Compiled {
        profile: policy.profile,
        alone: rules.iter().map(|(rule, _)| alone(rule)).collect(),
        rules,
        nameservers: entries(&policy.dns_servers).map(resolver).collect::<Result<_, _>>()?,
        addresses,
        gateways,
    })
}

/// `gateways` are the networks in which the guest's gateway addresses lie: the host.
pub(crate) fn rules(
    policy: &NetworkPolicy,
    gateways: [IpNetwork; 2],
    local: &[IpAddr],
) -> Result<Vec<(Rule, Origin)>, PolicyError> {
    let denied = parsed(EgressList::Deny, &policy.egress_deny)?;
    let allowed = parsed(EgressList::Allow, &policy.egress_allow)?;
    let floor = floor(gateways, local);
    let mut rules = Rules { gateways, rules: Vec::new() };

    let before_names =
        |entry: &Entry| entry.target == Target::Any || (is_name(&entry.target) && entry.port.is_none());
    for (entry, text) in denied.iter().filter(|(entry, _)| before_names(entry)) {
        rules.push(entry, Action::Deny, &Origin::Denied(text.clone()));
    }
    if policy.profile != NetworkProfile::None || allowed.iter().any(|(entry, _)| entry.target == Target::Any)
    {
        rules.rules.push((Rule::allow_dns(), Origin::Names));
    }
    for (entry, text) in denied.iter().filter(|(entry, _)| !before_names(entry)) {
        rules.push(entry, Action::Deny, &Origin::Denied(text.clone()));
    }
    let above_floor = |entry: &Entry| match &entry.target {
        Target::Host => true,
        Target::Net(net) => is_inside(&floor, net),
        Target::Name(_) | Target::Suffix(_) | Target::Any => false,
    };
    for (entry, text) in allowed.iter().filter(|(entry, _)| above_floor(entry)) {
        rules.push(entry, Action::Allow, &Origin::Allowed(text.clone()));
    }
    if policy.profile == NetworkProfile::Host {
        let host = Entry { target: Target::Host, port: None };
        rules.push(&host, Action::Allow, &Origin::Profile(policy.profile));
    }
    for Closed { net, what } in &floor {
        rules.rule(Destination::Cidr(*net), Vec::new(), Action::Deny, &Origin::Floor(what));
    }
    let (names, addresses): (Vec<_>, Vec<_>) = allowed
        .iter()
        .filter(|(entry, _)| !above_floor(entry))
        .partition(|(entry, _)| is_name(&entry.target));
    for (entry, text) in addresses {
        rules.push(entry, Action::Allow, &Origin::Allowed(text.clone()));
    }
    let class = match policy.profile {
        NetworkProfile::None | NetworkProfile::Host => None,
        NetworkProfile::Private => Some(DestinationGroup::Private),
        NetworkProfile::Public => Some(DestinationGroup::Public),
    };
    if let Some(group) = class {
        let origin = Origin::Profile(policy.profile);
        rules.rule(Destination::Group(group), Vec::new(), Action::Allow, &origin);
    }
    for (entry, text) in names {
        rules.push(entry, Action::Allow, &Origin::Allowed(text.clone()));
    }
    Ok(rules.rules)
}

const fn is_name(target: &Target) -> bool {
    matches!(target, Target::Name(_) | Target::Suffix(_))
}

fn alone(rule: &Rule) -> engine::NetworkPolicy {
    engine::NetworkPolicy {
        default_egress: if rule.action == Action::Allow { Action::Deny } else { Action::Allow },
        default_ingress: Action::Allow,
        rules: vec![rule.clone()],
    }
}

struct Rules {
    gateways: [IpNetwork; 2],
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
        engine::NetworkPolicy {
            default_egress: Action::Deny,
            // Only published ports let anyone in, and publishing is the user's own setting.
            default_ingress: Action::Allow,
            rules: self.rules.iter().map(|(rule, _)| rule.clone()).collect(),
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
            // Otherwise no TLS at all passes to a host that is allowed by its name, unless it is ended here.
            strict: false,
            max_tcp_connections: limit,
            max_udp_connections: limit,
            ..NetworkConfig::default()
        }
    }

    /// Lets names resolve to placeholders, for a host behind a proxy. Reaching one takes a rule for its name or for
    /// public addresses, as with any other address: a proxy carries no datagrams, so that this rule opens nothing.
    pub fn with_placeholders(mut self, (address, prefix): (Ipv4Addr, u8)) -> Self {
        if let Ok(net) = IpNetwork::new(address.into(), prefix) {
            let rule = Rule {
                direction: Direction::Egress,
                destination: Destination::Cidr(net),
                protocols: vec![engine::Protocol::Udp],
                ports: Vec::new(),
                action: Action::Allow,
            };
            self.alone.push(alone(&rule));
            self.rules.push((rule, Origin::Names));
        }
        self
    }

    /// Closes these ports to datagrams: TLS over UDP would pass by whoever puts secrets in.
    pub fn without_datagrams(mut self, ports: &[u16]) -> Self {
        let rule = Rule {
            direction: Direction::Egress,
            destination: Destination::Any,
            protocols: vec![engine::Protocol::Udp],
            ports: ports.iter().map(|port| engine::PortRange { start: *port, end: *port }).collect(),
            action: Action::Deny,
        };
        self.alone.insert(0, alone(&rule));
        self.rules.insert(0, (rule, Origin::Secrets));
        self
    }

    /// Whether an entry of the allowed ones names this very name, or what it is below.
    pub fn lists_name(&self, name: &str) -> bool {
        let Ok(domain) = name.parse::<engine::DomainName>() else { return false };
        self.rules.iter().any(|(rule, origin)| match (&rule.destination, origin) {
            (Destination::Domain(listed), Origin::Allowed(_)) => *listed == domain,
            (Destination::DomainSuffix(_), Origin::Allowed(_)) => {
                alone(rule).evaluate_dns_query(&domain, engine::Protocol::Udp, 53) == Action::Allow
            }
            _ => false,
        })
    }

    /// What the engine's own evaluation asks about the guest's surroundings.
    pub fn state(&self) -> SharedState {
        let state = SharedState::new(1);
        state.set_gateway_ips(Some(self.addresses.gateway_ipv4), Some(self.addresses.gateway_ipv6));
        state.set_nat64_prefixes(NetworkConfig::default().nat64_prefixes);
        state
    }

    /// What happens to a first packet to `to`, which the guest knows by `name`. `state` knows what names
    /// resolved to.
    pub fn decide(
        &self,
        to: SocketAddr,
        protocol: engine::Protocol,
        state: &SharedState,
        name: Option<&str>,
    ) -> Decision {
        self.first(|policy| policy.evaluate_egress(to, protocol, state), || self.entry_for(to, name))
    }

    /// What happens to a ping of `to`, which the guest knows by `name`: an entry with a port opens none.
    pub fn decide_ping(&self, to: IpAddr, state: &SharedState, name: Option<&str>) -> Decision {
        let protocol = if to.is_ipv4() { engine::Protocol::Icmpv4 } else { engine::Protocol::Icmpv6 };
        let entry = || match name {
            _ if self.is_this_machine(to) => "host".into(),
            Some(name) => name.into(),
            None => to.to_string(),
        };
        self.first(|policy| policy.evaluate_egress_ip(to, protocol, state), entry)
    }

    /// Whether a connection to `to` waits for what it says first, because names decide about it.
    pub fn waits(&self, to: SocketAddr, state: &SharedState) -> bool {
        let source = engine::HostnameSource::Deferred;
        self.engine_policy().evaluate_egress_with_source(to, engine::Protocol::Tcp, state, source)
            == engine::EgressEvaluation::DeferUntilHostname
    }

    /// Whether names decide about connections.
    pub fn has_names(&self) -> bool {
        self.rules.iter().any(|(rule, _)| {
            matches!(rule.destination, Destination::Domain(_) | Destination::DomainSuffix(_))
        })
    }

    /// Whether a connection to `to` may name the host `name` in what it says.
    pub fn allows_saying(&self, to: SocketAddr, state: &SharedState, name: &str) -> bool {
        let source = engine::HostnameSource::Sni(name);
        self.engine_policy().evaluate_egress_with_source(to, engine::Protocol::Tcp, state, source)
            == engine::EgressEvaluation::Allow
    }

    /// Whether a name resolves.
    pub fn decide_name(&self, name: &str) -> Option<Decision> {
        let domain: engine::DomainName = name.parse().ok()?;
        let evaluate =
            |policy: &engine::NetworkPolicy| policy.evaluate_dns_query(&domain, engine::Protocol::Udp, 53);
        Some(self.first(evaluate, || domain.as_str().to_string()))
    }

    /// The first rule that matches decides.
    fn first(
        &self,
        evaluate: impl Fn(&engine::NetworkPolicy) -> Action,
        entry: impl FnOnce() -> String,
    ) -> Decision {
        let mut rules = self.rules.iter().zip(&self.alone);
        let Some(((Rule { action, .. }, origin), _)) =
            rules.find(|((rule, _), alone)| evaluate(alone) == rule.action)
        else {
            let rule = format!("outside of profile {}", self.profile);
            return Decision { action: Action::Deny, rule, opens: Some(entry()) };
        };
        let (rule, opens) = match origin {
            Origin::Denied(text) => (format!("egress-deny has `{text}`"), None),
            Origin::Floor(what) => ((*what).to_string(), Some(entry())),
            Origin::Allowed(text) => (format!("egress-allow has `{text}`"), None),
            Origin::Profile(profile) => (format!("profile {profile}"), None),
            Origin::Names => ("names resolve".into(), None),
            Origin::Secrets => {
                ("HTTP/3 cannot be looked into for secrets; clients take TLS over TCP then".into(), None)
            }
        };
        Decision { action: *action, rule, opens }
    }

    /// Whether an address is the guest's gateway, behind which the host's loopback is.
    pub fn is_host(&self, ip: IpAddr) -> bool {
        self.gateways.iter().any(|gateway| gateway.contains(ip))
    }

    /// An address behind which the host is.
    pub fn a_gateway(&self) -> IpAddr {
        self.gateways[0].ip()
    }

    /// The resolvers that the settings name.
    pub fn nameservers(&self) -> Vec<Nameserver> {
        self.nameservers.clone()
    }

    /// Whether an address is this machine in any spelling, which `host` opens.
    fn is_this_machine(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        ip.is_loopback() || ip.is_unspecified() || self.is_host(ip)
    }

    fn entry_for(&self, to: SocketAddr, name: Option<&str>) -> String {
        if self.is_this_machine(to.ip()) {
            return format!("host:{}", to.port());
        }
        name.map_or_else(|| to.to_string(), |name| format!("{name}:{}", to.port()))
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

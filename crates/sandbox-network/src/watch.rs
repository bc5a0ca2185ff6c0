//! Watching what passes, to tell it.
//!
//! The engine does not say what it allows, nor what it refuses at the first packet, so the guest's packets are
//! looked at on their way in, and the resolver's answers on their way out: they tell under which name an address
//! was found, or that it was not. Names that may not resolve come from the engine's own log ([`crate::log`]).

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use microsandbox_network::policy::{Action, Protocol};
use microsandbox_network::shared::SharedState;
use sandbox_model::Proxies;

use crate::answers::{Answer, Found, answer};
use crate::compile::{Compiled, Decision};
use crate::event::{Event, EventKind, Verdict, now};
use crate::event_log::EventLog;
use crate::named::{FirstWords, refusal};
use crate::ping::{Pings, echo};
use crate::server_first;

/// Flags of a segment: the first of a connection has only the one of the two.
const SYN: u8 = 0x02;
const SYN_ACK: u8 = 0x12;
/// Destinations that were looked at lately, and names that were found.
const REMEMBERED: usize = 4096;
/// A destination is looked at again after this time.
const LATELY: Duration = Duration::from_secs(20);

pub(crate) struct Watch {
    policy: Arc<Compiled>,
    /// What names resolved to, as the engine knows it.
    state: SharedState,
    log: EventLog,
    lately: HashSet<(u8, SocketAddr)>,
    since: Instant,
    names: HashMap<IpAddr, String>,
    proxies: Option<Arc<Proxies>>,
    words: FirstWords,
    /// What connections say first decides about them.
    words_decide: bool,
    pings: Pings,
}

impl Watch {
    pub fn new(policy: Arc<Compiled>, log: EventLog, proxies: Option<Arc<Proxies>>) -> Self {
        Self {
            state: policy.state(),
            words: FirstWords::default(),
            words_decide: policy.has_names(),
            policy,
            log,
            lately: HashSet::new(),
            since: Instant::now(),
            names: HashMap::new(),
            proxies,
            pings: Pings::probe(),
        }
    }

    /// A frame on its way in; whether a connection says its first words in it.
    pub fn guest_sent(&mut self, frame: &[u8]) -> bool {
        let first_words = self.listen(frame);
        if let Some((protocol, to)) = opening(frame) {
            self.opens(protocol, to);
        } else if let Some(to) = echo(frame) {
            self.pings(to);
        }
        first_words
    }

    /// Whether a destination was not looked at lately.
    fn is_new(&mut self, protocol: u8, to: SocketAddr) -> bool {
        if self.lately.len() >= REMEMBERED || self.since.elapsed() > LATELY {
            self.lately.clear();
            self.since = Instant::now();
        }
        self.lately.insert((protocol, to))
    }

    fn opens(&mut self, protocol: Protocol, to: SocketAddr) {
        let (number, kind) =
            if protocol == Protocol::Udp { (17, EventKind::Udp) } else { (6, EventKind::Tcp) };
        if !self.is_new(number, to) {
            return;
        }
        let hidden = hides_names(protocol, to.port());
        let name = self.names.get(&to.ip());
        let mut decision = if hidden {
            let rule = "names are asked for at port 53, where the policy sees them".into();
            Decision { action: Action::Deny, rule, opens: None }
        } else {
            self.policy.decide(to, protocol, &self.state, name.map(String::as_str))
        };
        let allowed = decision.action == Action::Allow;
        let verdict = match (allowed, self.way(protocol, to, name)) {
            (false, _) => Verdict::Denied,
            (true, Way::Direct) => {
                if protocol == Protocol::Tcp
                    && server_first::is_usual(to.port())
                    && self.policy.waits(to, &self.state)
                {
                    let advice =
                        ", and waits 5 s for the client to speak; an entry with the address does not";
                    decision.rule.push_str(advice);
                }
                Verdict::Allowed
            }
            (true, Way::Proxy) => {
                decision.rule.push_str(", through the proxy");
                Verdict::Allowed
            }
            (true, Way::None) => {
                decision.rule.push_str(", but the proxy carries no datagrams");
                Verdict::Failed
            }
        };
        self.log.report(&Event {
            at: now(),
            verdict,
            kind,
            name: name.cloned(),
            address: Some(to.to_string()),
            rule: decision.rule,
            opens: decision.opens,
        });
    }

    fn pings(&mut self, to: IpAddr) {
        if !self.is_new(1, SocketAddr::new(to, 0)) {
            return;
        }
        let name = self.names.get(&to);
        let mut decision = self.policy.decide_ping(to, &self.state, name.map(String::as_str));
        let problem = self.pings.problem(to).filter(|_| !self.policy.is_host(to));
        let verdict = match (decision.action, problem) {
            (Action::Deny, _) => Verdict::Denied,
            (Action::Allow, None) => Verdict::Allowed,
            (Action::Allow, Some(problem)) => {
                decision.rule.push_str(", but ");
                decision.rule.push_str(problem);
                Verdict::Failed
            }
        };
        self.log.report(&Event {
            at: now(),
            verdict,
            kind: EventKind::Ping,
            name: name.cloned(),
            address: Some(to.to_string()),
            rule: decision.rule,
            opens: decision.opens,
        });
    }

    /// What a connection says first, where a frame has that, names its host.
    fn listen(&mut self, frame: &[u8]) -> bool {
        let Some((6, to, segment)) = packet(frame) else { return false };
        let &[a, b, c, d, _, _, _, _, _, _, _, _, offset, flags, ..] = segment else { return false };
        let (from, to) = (u16::from_be_bytes([a, b]), SocketAddr::new(to, u16::from_be_bytes([c, d])));
        if flags & SYN_ACK == SYN {
            self.words.begins(from, to);
            return false;
        }
        let Some(said) = segment.get(usize::from(offset >> 4) * 4..) else { return false };
        let first_words = self.words.are(from, to, said);
        if first_words
            && self.words_decide
            && let Some(event) = refusal(to, said, &self.policy, &self.state)
        {
            self.log.report_named(&event, to);
        }
        first_words
    }

    fn way(&self, protocol: Protocol, to: SocketAddr, name: Option<&String>) -> Way {
        let Some(proxies) = &self.proxies else { return Way::Direct };
        let udp = protocol == Protocol::Udp;
        if self.policy.is_host(to.ip()) {
            return Way::Direct;
        }
        match proxies.to(name.map(String::as_str), Some(to.ip()), to.port()) {
            Some(_) if udp => Way::None,
            Some(_) => Way::Proxy,
            None => Way::Direct,
        }
    }

    /// The policy lets a name resolve, and it does not.
    fn unresolved(&self, name: String, why: &str) {
        let Some(decision) = self.policy.decide_name(&name) else { return };
        // Refusals look the same to the guest, and were told.
        if decision.action == Action::Deny || self.log.has_refused(&name) {
            return;
        }
        self.log.report(&Event {
            at: now(),
            verdict: Verdict::Failed,
            kind: EventKind::Name,
            name: Some(name),
            address: None,
            rule: format!("{}, but {why}", decision.rule),
            opens: None,
        });
    }

    /// A frame on its way out.
    pub fn guest_receives(&mut self, frame: &[u8]) {
        let Found { name, family, addresses, ttl } = match answer(frame) {
            Some(Answer::Found(found)) => found,
            Some(Answer::Unresolved(name, why)) => return self.unresolved(name, why),
            None => return,
        };
        if self.names.len() >= REMEMBERED {
            self.names.clear();
        }
        self.names.extend(addresses.iter().map(|address| (*address, name.clone())));
        self.state.cache_resolved_hostname(&name, family, addresses, ttl);
        // What was refused before may be allowed under this name.
        self.lately.clear();
    }
}

/// How what is allowed leaves.
enum Way {
    Direct,
    Proxy,
    None,
}

/// Protocol, destination and the rest of a packet that is no later fragment.
pub(crate) fn packet(frame: &[u8]) -> Option<(u8, IpAddr, &[u8])> {
    let (kind, packet) = (frame.get(12..14)?, frame.get(14..)?);
    match kind {
        [0x08, 0x00] => {
            let header = usize::from(packet.first()? & 0x0f) * 4;
            // Not the first fragment: no ports in it.
            let offset = u16::from_be_bytes([packet.get(6)? & 0x1f, *packet.get(7)?]);
            if packet[0] >> 4 != 4 || header < 20 || offset != 0 {
                return None;
            }
            let to = Ipv4Addr::from(<[u8; 4]>::try_from(packet.get(16..20)?).ok()?);
            Some((*packet.get(9)?, IpAddr::V4(to), packet.get(header..)?))
        }
        [0x86, 0xdd] => {
            let to = Ipv6Addr::from(<[u8; 16]>::try_from(packet.get(24..40)?).ok()?);
            Some((*packet.get(6)?, IpAddr::V6(to), packet.get(40..)?))
        }
        _ => None,
    }
}

/// The destination of a packet that opens a connection, or of a datagram. Names are asked for on port 53,
/// where the engine answers itself.
fn opening(frame: &[u8]) -> Option<(Protocol, SocketAddr)> {
    let (number, to, payload) = packet(frame)?;
    // Multicast is a guest looking for neighbours that it does not have.
    let broadcast = to == IpAddr::V4(Ipv4Addr::BROADCAST);
    let port = u16::from_be_bytes([*payload.get(2)?, *payload.get(3)?]);
    if port == 53 || to.is_multicast() || broadcast {
        return None;
    }
    match number {
        6 if payload.get(13)? & SYN_ACK == SYN => Some((Protocol::Tcp, SocketAddr::new(to, port))),
        17 => Some((Protocol::Udp, SocketAddr::new(to, port))),
        _ => None,
    }
}

/// Whether names are asked for at a port where the policy cannot see them: by DNS over TLS or QUIC, or from
/// neighbours. The engine closes these, whatever an entry says.
const fn hides_names(protocol: Protocol, port: u16) -> bool {
    match protocol {
        Protocol::Tcp => port == 853,
        _ => matches!(port, 853 | 5353 | 5355 | 137),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ipv4(protocol: u8, to: [u8; 4], port: u16, flags: u8) -> Vec<u8> {
        let mut frame = vec![0; 14 + 20 + 20];
        frame[12..14].copy_from_slice(&[0x08, 0x00]);
        frame[14] = 0x45;
        frame[23] = protocol;
        frame[30..34].copy_from_slice(&to);
        frame[36..38].copy_from_slice(&port.to_be_bytes());
        frame[47] = flags;
        frame
    }

    #[test]
    fn only_openings_are_seen() {
        let to = |text: &str| text.parse::<SocketAddr>().unwrap();
        let syn = ipv4(6, [10, 0, 0, 1], 443, 0x02);
        assert_eq!(opening(&syn), Some((Protocol::Tcp, to("10.0.0.1:443"))));
        assert_eq!(opening(&ipv4(6, [10, 0, 0, 1], 443, 0x12)), None, "an answer");
        assert_eq!(opening(&ipv4(6, [10, 0, 0, 1], 443, 0x10)), None, "in a connection");
        assert_eq!(opening(&ipv4(17, [10, 0, 0, 1], 123, 0)), Some((Protocol::Udp, to("10.0.0.1:123"))));
        assert_eq!(opening(&ipv4(17, [10, 0, 0, 1], 53, 0)), None, "a name");
        assert_eq!(opening(&ipv4(17, [224, 0, 0, 251], 5353, 0)), None, "multicast");
        assert_eq!(opening(&ipv4(1, [10, 0, 0, 1], 443, 0)), None, "ICMP");
        let mut fragment = syn.clone();
        fragment[21] = 1;
        assert_eq!(opening(&fragment), None, "a later fragment");

        let mut v6 = vec![0; 14 + 40 + 20];
        v6[12..14].copy_from_slice(&[0x86, 0xdd]);
        v6[14] = 0x60;
        v6[20] = 6;
        v6[38..54].copy_from_slice(&"2001:db8::1".parse::<Ipv6Addr>().unwrap().octets());
        v6[56..58].copy_from_slice(&443_u16.to_be_bytes());
        v6[67] = 0x02;
        assert_eq!(opening(&v6), Some((Protocol::Tcp, to("[2001:db8::1]:443"))));
    }

    proptest! {
        #[test]
        fn no_frame_makes_it_panic(mut frame in prop::collection::vec(any::<u8>(), 0..120), kind in 0..3) {
            if let (Some(bytes), true) = (frame.get_mut(12..14), kind > 0) {
                bytes.copy_from_slice(if kind == 1 { &[0x08, 0x00] } else { &[0x86, 0xdd] });
            }
            let _ = opening(&frame);
            let _ = echo(&frame);
            let _ = answer(&frame);
        }
    }
}

//! Telling the user what was denied, and what would open it.
//!
//! The engine does not log what it refuses at the first packet, so the guest's packets are looked at on
//! their way in; names that do not resolve come from the engine's own log ([`crate::log`]).

use std::collections::HashSet;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use microsandbox_network::policy::Protocol;
use microsandbox_network::shared::SharedState;

use crate::compile::Compiled;

/// One destination is reported once in this time, and at most [`LINES`] lines are.
const WINDOW: Duration = Duration::from_mins(1);
const LINES: usize = 20;
/// Destinations of datagrams that were looked at lately.
const REMEMBERED: usize = 1024;

/// Keeps a guest that knocks on every door from filling the log.
#[derive(Debug)]
pub(crate) struct Limiter {
    begin: Instant,
    seen: HashSet<String>,
}

impl Limiter {
    pub fn new(now: Instant) -> Self {
        Self { begin: now, seen: HashSet::new() }
    }

    /// What to write about `subject`, if anything.
    pub fn admit(&mut self, subject: &str, now: Instant) -> Admission {
        if now.duration_since(self.begin) >= WINDOW {
            *self = Self::new(now);
        }
        if self.seen.contains(subject) || self.seen.len() > LINES {
            return Admission::Silent;
        }
        self.seen.insert(subject.into());
        if self.seen.len() > LINES { Admission::LastWord } else { Admission::Line }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    Line,
    /// This and all others go unreported for a while.
    LastWord,
    Silent,
}

/// Where denials are written, one line each.
#[derive(Clone)]
pub(crate) struct DenialLog {
    inner: Arc<Mutex<(Limiter, Box<dyn Write + Send>)>>,
}

impl DenialLog {
    pub fn new(to: Box<dyn Write + Send>) -> Self {
        Self { inner: Arc::new(Mutex::new((Limiter::new(Instant::now()), to))) }
    }

    pub fn report(&self, subject: &str, reason: &str) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let (limiter, to) = &mut *inner;
        // A log that cannot be written is no reason to stop the guest's network.
        let _ = match limiter.admit(subject, Instant::now()) {
            Admission::Line => writeln!(to, "network: denied {subject}: {reason}"),
            Admission::LastWord => writeln!(to, "network: denied more; not shown for a minute"),
            Admission::Silent => Ok(()),
        };
    }
}

/// Looks at what a guest sends.
pub(crate) struct Watch {
    policy: Arc<Compiled>,
    state: SharedState,
    log: DenialLog,
    datagrams: HashSet<SocketAddr>,
}

impl Watch {
    pub fn new(policy: Arc<Compiled>, log: DenialLog) -> Self {
        Self { state: policy.state(), policy, log, datagrams: HashSet::new() }
    }

    pub fn guest_sent(&mut self, frame: &[u8]) {
        let Some((protocol, to)) = opening(frame) else { return };
        if protocol == Protocol::Udp {
            if self.datagrams.len() >= REMEMBERED {
                self.datagrams.clear();
            }
            if !self.datagrams.insert(to) {
                return;
            }
        }
        if let Some(reason) = self.policy.why_denied(to, protocol, &self.state) {
            let kind = if protocol == Protocol::Udp { "udp" } else { "tcp" };
            self.log.report(&format!("{kind} {to}"), &reason);
        }
    }
}

/// The destination of a packet that opens a connection, or of a datagram. Names are asked for on port 53,
/// where the engine answers itself.
pub(crate) fn opening(frame: &[u8]) -> Option<(Protocol, SocketAddr)> {
    let (kind, packet) = (frame.get(12..14)?, frame.get(14..)?);
    let (number, to, payload) = match kind {
        [0x08, 0x00] => {
            let header = usize::from(packet.first()? & 0x0f) * 4;
            // Not the first fragment: no ports in it.
            let offset = u16::from_be_bytes([packet.get(6)? & 0x1f, *packet.get(7)?]);
            if packet[0] >> 4 != 4 || header < 20 || offset != 0 {
                return None;
            }
            let to = Ipv4Addr::from(<[u8; 4]>::try_from(packet.get(16..20)?).ok()?);
            (*packet.get(9)?, IpAddr::V4(to), packet.get(header..)?)
        }
        [0x86, 0xdd] => {
            let to = Ipv6Addr::from(<[u8; 16]>::try_from(packet.get(24..40)?).ok()?);
            (*packet.get(6)?, IpAddr::V6(to), packet.get(40..)?)
        }
        _ => return None,
    };
    // Multicast is a guest looking for neighbours that it does not have.
    let broadcast = to == IpAddr::V4(Ipv4Addr::BROADCAST);
    let port = u16::from_be_bytes([*payload.get(2)?, *payload.get(3)?]);
    if port == 53 || to.is_multicast() || broadcast {
        return None;
    }
    match number {
        // SYN without ACK.
        6 if payload.get(13)? & 0x12 == 0x02 => Some((Protocol::Tcp, SocketAddr::new(to, port))),
        17 => Some((Protocol::Udp, SocketAddr::new(to, port))),
        _ => None,
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

    #[test]
    fn a_destination_is_reported_once_and_a_flood_ends_in_one_line() {
        let begin = Instant::now();
        let mut limiter = Limiter::new(begin);
        assert_eq!(limiter.admit("a", begin), Admission::Line);
        assert_eq!(limiter.admit("a", begin + WINDOW / 2), Admission::Silent);
        let flood: Vec<_> = (0..100).map(|i| limiter.admit(&format!("b{i}"), begin)).collect();
        assert_eq!(flood.iter().filter(|a| **a == Admission::Line).count(), LINES - 1);
        assert_eq!(flood.iter().filter(|a| **a == Admission::LastWord).count(), 1);
        assert_eq!(limiter.admit("a", begin + WINDOW), Admission::Line, "a new minute");
    }

    proptest! {
        #[test]
        fn no_frame_makes_it_panic(mut frame in prop::collection::vec(any::<u8>(), 0..120), kind in 0..3) {
            if let (Some(bytes), true) = (frame.get_mut(12..14), kind > 0) {
                bytes.copy_from_slice(if kind == 1 { &[0x08, 0x00] } else { &[0x86, 0xdd] });
            }
            let _ = opening(&frame);
        }
    }
}

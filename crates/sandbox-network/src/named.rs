//! Connections that name another host than the policy allows at their address.
//!
//! The engine closes a connection of plain HTTP for its `Host` without a word, and one of TLS that it does not end
//! without the name, so what connections say first is looked at on its way in, with the engine's own evaluation.

use std::collections::HashSet;
use std::net::SocketAddr;

use microsandbox_network::policy::Action;
use microsandbox_network::shared::SharedState;

use crate::compile::{Compiled, Decision};
use crate::event::{Event, EventKind, Verdict, now};
use crate::upstream::is_placeholder;

/// Connections of which nothing was heard yet.
const REMEMBERED: usize = 4096;

/// The event of a connection whose first bytes name a host that may not be reached there.
pub(crate) fn other_name(
    policy: &Compiled,
    kind: EventKind,
    name: Option<String>,
    address: Option<SocketAddr>,
) -> Event {
    let port = address.map(|address| address.port());
    // One that stands for another name says nothing to a person, and opens nothing.
    let address = address.filter(|address| !is_placeholder(address.ip())).map(|address| address.to_string());
    let opens = match (&name, port) {
        (Some(name), Some(port)) => Some(format!("{name}:{port}")),
        _ => address.clone(),
    };
    let (rule, opens) = match name.as_deref().and_then(|name| policy.decide_name(name)) {
        Some(Decision { action: Action::Deny, rule, opens: None }) => (rule, None),
        _ => ("no entry allows this name at this address and port".into(), opens),
    };
    Event { at: now(), verdict: Verdict::Denied, kind, name, address, rule, opens }
}

/// Knows the first words of connections.
#[derive(Debug, Default)]
pub(crate) struct FirstWords {
    /// The guest's port and the destination of each that has said nothing.
    silent: HashSet<(u16, SocketAddr)>,
}

impl FirstWords {
    /// A connection begins.
    pub fn begins(&mut self, from: u16, to: SocketAddr) {
        if self.silent.len() >= REMEMBERED {
            self.silent.clear();
        }
        self.silent.insert((from, to));
    }

    /// Whether what a segment from the guest's port says are the first words of its connection.
    pub fn are(&mut self, from: u16, to: SocketAddr, words: &[u8]) -> bool {
        !words.is_empty() && !self.silent.is_empty() && self.silent.remove(&(from, to))
    }
}

/// The event of a connection that is refused for the host that its first words name.
pub(crate) fn refusal(to: SocketAddr, words: &[u8], policy: &Compiled, state: &SharedState) -> Option<Event> {
    let (kind, host) = match server_name(words) {
        Some(name) => (EventKind::Tls, name),
        None => (EventKind::Http, host(words)?),
    };
    (!policy.allows_saying(to, state, &host)).then(|| other_name(policy, kind, Some(host), Some(to)))
}

/// What a request's first segment has for its host.
fn host_field(words: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(words.split(|byte| *byte == 0).next()?).ok()?;
    let mut lines = text.split("\r\n");
    let first = lines.next()?;
    let method = first.split(' ').next()?;
    if method.is_empty()
        || !method.bytes().all(|byte| byte.is_ascii_uppercase())
        || !first.contains(" HTTP/1.")
    {
        return None;
    }
    lines.take_while(|line| !line.is_empty()).find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("host").then(|| value.trim())
    })
}

/// The host of a request's first segment, in lower case and without its port.
fn host(words: &[u8]) -> Option<String> {
    let field = host_field(words)?;
    // Addresses are no names.
    let name = field.rsplit_once(':').map_or(field, |(name, _)| name).trim_end_matches('.');
    let is_name = !name.is_empty() && !name.starts_with('[') && name.parse::<std::net::IpAddr>().is_err();
    is_name.then(|| name.to_ascii_lowercase())
}

/// The server name of a TLS client's hello, as far as it stands in the first segment (RFC 8446, 4.1.2; RFC 6066, 3).
fn server_name(words: &[u8]) -> Option<String> {
    // Record and handshake header, version, random.
    let (head, mut rest) = words.split_at_checked(43)?;
    if head[0] != 22 || head[1] != 3 || head[5] != 1 {
        return None;
    }
    let mut field = |width: usize| -> Option<&[u8]> {
        let (length, after) = rest.split_at_checked(width)?;
        let length = length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        let (field, after) = after.split_at_checked(length)?;
        rest = after;
        Some(field)
    };
    // Session, cipher suites, compression.
    for width in [1, 2, 1] {
        field(width)?;
    }
    let mut extensions = rest.get(2..)?;
    while let Some(([kind @ .., high, low], after)) = extensions.split_first_chunk::<4>() {
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let (body, after) = after.split_at_checked(length)?;
        if *kind == [0, 0] {
            // One list with one name of the one kind.
            let [_, _, 0, high, low, name @ ..] = body else { return None };
            let name = name.get(..usize::from(u16::from_be_bytes([*high, *low])))?;
            return std::str::from_utf8(name)
                .ok()
                .map(|name| name.trim_end_matches('.').to_ascii_lowercase());
        }
        extensions = after;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_in_a_hello_is_found_and_half_a_hello_is_none() {
        let config =
            rustls::ClientConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_root_certificates(rustls::RootCertStore::empty())
                .with_no_client_auth();
        let name = "Open.example.com".try_into().unwrap();
        let mut client = rustls::ClientConnection::new(std::sync::Arc::new(config), name).unwrap();
        let mut hello = Vec::new();
        client.write_tls(&mut hello).unwrap();
        assert_eq!(server_name(&hello).as_deref(), Some("open.example.com"));
        for end in 0..hello.len() {
            assert!(server_name(&hello[..end]).is_none_or(|name| name == "open.example.com"));
        }
        assert_eq!(server_name(&hello[..60]), None);
        assert_eq!(
            server_name(b"GET / HTTP/1.1\r\nHost: a.example.com\r\nCookie: long enough\r\n\r\n"),
            None
        );
    }

    #[test]
    fn the_host_of_a_request_is_found_in_its_first_segment() {
        let found = |text: &str| host(text.as_bytes());
        assert_eq!(
            found("GET /x HTTP/1.1\r\nA: b\r\nhOST: A.Example.com.:80\r\n\r\n").as_deref(),
            Some("a.example.com")
        );
        assert_eq!(
            found("POST / HTTP/1.1\r\nHost: b.example\r\nCookie: half of").as_deref(),
            Some("b.example")
        );
        for text in [
            "",
            "SSH-2.0-x\r\nHost: a\r\n",
            "GET / HTTP/1.1\r\n\r\nHost: in.the.body\r\n",
            "GET / HTTP/1.1\r\nHost: 10.0.0.1:80\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: [2001:db8::1]:80\r\n\r\n",
            "get / HTTP/1.1\r\nHost: a\r\n\r\n",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
        assert_eq!(host(b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n"), None);
    }
}

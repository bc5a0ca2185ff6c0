//! Resolvers that are asked inside of TLS, where the policy does not hear the names.

use std::net::{Ipv4Addr, SocketAddr};

use sandbox_model::NetworkProfile;
use sandbox_network::{EventKind, Verdict};

use crate::own::in_own_network;
use crate::peer::{Dns, Tcp};
use crate::process::{Bridge, serve_if_asked};
use crate::tls::{self, Tls};
use crate::world::World;
use crate::{NXDOMAIN, config, resolved_by, resolver};

const NAMES: [(&str, &str, &str); 3] = [
    ("api.example.com", "44.55.66.10", ""),
    ("doh.example.net", "44.55.66.20", ""),
    ("hidden.example.org", "44.55.66.30", ""),
];

fn at(last: u8, port: u16) -> SocketAddr {
    SocketAddr::new(Ipv4Addr::new(44, 55, 66, last).into(), port)
}

fn query(host: &str) -> String {
    format!("GET /dns-query?dns=AAABAAAB HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
}

fn ok(said: &Tls) -> bool {
    matches!(said, Tls::Said(text) if text.starts_with("HTTP/1.1 200"))
}

#[test]
fn a_resolver_over_https_is_reached_only_where_an_entry_names_it() {
    serve_if_asked();
    let case = "hidden_names::a_resolver_over_https_is_reached_only_where_an_entry_names_it";
    let outside = in_own_network(case);
    let world = World::new();
    let both = ["api.example.com", "doh.example.net"];
    let api = world.https(outside.listen(at(10, 443)), &both);
    let doh = world.https(outside.listen(at(20, 443)), &both);
    let hidden = world.https(outside.listen(at(30, 443)), &["hidden.example.org"]);
    let start = |allowed: &[&str]| {
        let policy = resolved_by(resolver::names(NAMES.to_vec()), config(NetworkProfile::None, allowed, &[]));
        Bridge::start_trusting(case, &policy, false, Some(&world.root_pem))
    };

    let (bridge, mut guest) = start(&["api.example.com:443"]);
    assert_eq!(guest.resolve("api.example.com"), Dns::Addresses(vec![[44, 55, 66, 10]]));
    assert_eq!(guest.resolve("doh.example.net"), NXDOMAIN);
    let mut ask = |last: u8, name: &str| {
        tls::https(&mut guest, at(last, 443), name, &world.root_pem, &query("doh.example.net"))
    };
    // By its address, as programs with a resolver built in do, under its own name and under an allowed one.
    assert_eq!(ask(20, "doh.example.net"), Tls::Refused);
    assert_eq!(ask(20, "api.example.com"), Tls::Refused);
    // At an address that is open for another name.
    let fronted = ask(10, "doh.example.net");
    assert!(!ok(&fronted), "{fronted:?}");
    assert_eq!((api.try_iter().count(), doh.try_iter().count()), (0, 0));
    assert!(ok(&ask(10, "api.example.com")), "the door");
    assert_eq!(api.try_iter().count(), 1);
    let events = bridge.events();
    let refused =
        events.iter().find(|event| event.verdict == Verdict::Denied && event.kind == EventKind::Tls);
    assert_eq!(refused.and_then(|event| event.opens.as_deref()), Some("doh.example.net:443"), "{events:?}");
    drop(bridge.end(guest));

    let (bridge, mut guest) = start(&["api.example.com:443", "doh.example.net:443"]);
    assert_eq!(guest.resolve("doh.example.net"), Dns::Addresses(vec![[44, 55, 66, 20]]));
    let asked = query("doh.example.net");
    let said = tls::https(&mut guest, at(20, 443), "doh.example.net", &world.root_pem, &asked);
    assert!(ok(&said), "{said:?}");
    assert_eq!(doh.try_iter().count(), 1);
    // What it tells the guest opens nothing.
    let asked = query("hidden.example.org");
    let said = tls::https(&mut guest, at(30, 443), "hidden.example.org", &world.root_pem, &asked);
    assert_eq!((said, hidden.try_iter().count()), (Tls::Refused, 0));
    drop(bridge.end(guest));
}

#[test]
fn the_port_of_dns_over_tls_is_closed_whatever_an_entry_says() {
    serve_if_asked();
    let case = "hidden_names::the_port_of_dns_over_tls_is_closed_whatever_an_entry_says";
    let outside = in_own_network(case);
    let world = World::new();
    let dot = world.https(outside.listen(at(20, 853)), &["doh.example.net"]);
    let other = world.https(outside.listen(at(20, 8853)), &["doh.example.net"]);
    let quic = outside.udp(at(20, 853));
    let datagrams = outside.udp(at(20, 8853));
    let allowed = ["doh.example.net:853", "44.55.66.20", "44.55.66.20:853"];
    let policy = config(NetworkProfile::Public, &allowed, &[]);
    let policy = resolved_by(resolver::names(NAMES.to_vec()), policy);
    let (bridge, mut guest) = Bridge::start_trusting(case, &policy, false, Some(&world.root_pem));
    let mut ask = |port: u16| {
        tls::https(&mut guest, at(20, port), "doh.example.net", &world.root_pem, &query("doh.example.net"))
    };
    assert_eq!((ask(853), dot.try_iter().count()), (Tls::Refused, 0));
    assert!(ok(&ask(8853)), "the door");
    assert_eq!(other.try_iter().count(), 1);
    assert_eq!(guest.udp(at(20, 853), b"a query"), None);
    assert_eq!(guest.udp(at(20, 8853), b"a query").as_deref(), Some(&b"a query"[..]));
    assert_eq!((quic.try_iter().count(), datagrams.try_iter().count()), (0, 1));
    assert_eq!(guest.tcp(at(20, 853), b"words"), Tcp::Refused);
    let closed: Vec<_> =
        bridge.events().into_iter().filter(|event| event.verdict == Verdict::Denied).collect();
    let kinds: Vec<_> = closed.iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [EventKind::Tcp, EventKind::Udp], "{closed:?}");
    assert!(closed.iter().all(|event| event.opens.is_none()), "nothing would open it: {closed:?}");
    drop(bridge.end(guest));
}

//! Names are enforced where a connection says which host it is for, and IPv6 like IPv4.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr};

use sandbox_model::{NetworkProfile, SecretSpec, SecretValue, SecretValues};
use sandbox_network::{Authority, BridgeConfig, BridgeSecrets, EventKind, Verdict};

use crate::own::in_own_network;
use crate::peer::{Dns, Tcp};
use crate::process::{Bridge, serve_if_asked};
use crate::tls::{self, Tls};
use crate::world::{self, World};
use crate::{config, resolved_by, resolver};

const NAMES: [(&str, &str, &str); 3] = [
    ("open.example.com", "44.55.66.10", "2606:4700:44::10"),
    // At the same address, and not allowed.
    ("closed.example.com", "44.55.66.10", "2606:4700:44::10"),
    ("second.example.com", "44.55.66.20", "2606:4700:44::20"),
];

fn at(address: &str, port: u16) -> SocketAddr {
    SocketAddr::new(address.parse::<IpAddr>().unwrap(), port)
}

fn get(host: &str) -> String {
    format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
}

fn ok(said: &Tls) -> bool {
    matches!(said, Tls::Said(text) if text.starts_with("HTTP/1.1 200"))
}

#[test]
fn one_name_of_an_address_opens_no_other_name_there() {
    serve_if_asked();
    let case = "names::one_name_of_an_address_opens_no_other_name_there";
    let outside = in_own_network(case);
    let world = World::new();
    let shared =
        world.https(outside.listen(at("44.55.66.10", 443)), &["open.example.com", "closed.example.com"]);
    let second =
        world.https(outside.listen(at("44.55.66.20", 443)), &["second.example.com", "open.example.com"]);
    let plain = world::serve(outside.listen(at("44.55.66.10", 80)), |socket| socket);
    let policy = config(NetworkProfile::None, &["open.example.com", "second.example.com"], &[]);
    let plainly = resolved_by(resolver::names(NAMES.to_vec()), policy);
    // With secrets, TLS is ended here; without, only its first words are read.
    let looking = BridgeConfig {
        secrets: Some(BridgeSecrets {
            secrets: Vec::new(),
            values: SecretValues::new(),
            authority: Authority::generate("test").unwrap(),
        }),
        ..plainly.clone()
    };
    for config in [&plainly, &looking] {
        let (bridge, mut guest) = Bridge::start_trusting(case, config, false, Some(&world.root_pem));
        let trusted = bridge.report.boot.extra_ca_pem.clone().unwrap_or_else(|| world.root_pem.clone());
        for (name, _, _) in NAMES {
            guest.resolve(name);
        }
        let mut ask = |address: &str, name: &str, host: &str| {
            tls::https(&mut guest, at(address, 443), name, &trusted, &get(host))
        };
        // The door, at both addresses.
        let said = ask("44.55.66.10", "open.example.com", "open.example.com");
        assert!(ok(&said), "{said:?}");
        assert!(ok(&ask("44.55.66.20", "second.example.com", "second.example.com")));
        assert_eq!((shared.try_iter().count(), second.try_iter().count()), (1, 1));
        // Another name for the same address.
        assert!(!ok(&ask("44.55.66.10", "closed.example.com", "closed.example.com")));
        // An allowed name for an address that was found under another one.
        assert!(!ok(&ask("44.55.66.20", "open.example.com", "open.example.com")));
        assert_eq!((shared.try_iter().count(), second.try_iter().count()), (0, 0));
        if config.secrets.is_some() {
            // One name outside of TLS, and another inside, both ways.
            assert!(!ok(&ask("44.55.66.10", "open.example.com", "closed.example.com")));
            assert!(!ok(&ask("44.55.66.10", "closed.example.com", "open.example.com")));
            assert_eq!(shared.try_iter().count(), 0, "a name inside TLS was not looked at");
        }
        // Plain HTTP says its host as well.
        let said = guest.tcp(at("44.55.66.10", 80), get("other.example.com").as_bytes());
        assert!(!matches!(&said, Tcp::Said(text) if text.starts_with(b"HTTP/1.1 200")), "{said:?}");
        assert_eq!(plain.try_iter().count(), 0);
        let said = guest.tcp(at("44.55.66.10", 80), get("open.example.com").as_bytes());
        assert!(matches!(&said, Tcp::Said(text) if text.starts_with(b"HTTP/1.1 200")), "{said:?}");
        assert_eq!(plain.try_iter().count(), 1);
        let events = bridge.events();
        let denied = |kind| {
            let denied = events.iter().filter(|event| event.verdict == Verdict::Denied && event.kind == kind);
            denied.map(|event| event.name.clone().unwrap_or_default()).collect::<Vec<_>>()
        };
        assert!(!denied(EventKind::Tls).is_empty(), "nobody is told of it");
        assert_eq!(denied(EventKind::Http), ["other.example.com"]);
    }
}

#[test]
fn ipv6_is_allowed_and_denied_like_ipv4() {
    serve_if_asked();
    let case = "names::ipv6_is_allowed_and_denied_like_ipv4";
    let outside = in_own_network(case);
    let open = world::serve(outside.listen(at("2606:4700:44::10", 8080)), |socket| socket);
    let closed = world::serve(outside.listen(at("2606:4700:44::20", 8080)), |socket| socket);
    let policy = config(
        NetworkProfile::None,
        &["[2606:4700:44::10]:8080", "2606:4700:44::/64"],
        &["2606:4700:44::20"],
    );
    let (bridge, mut guest) = Bridge::start(case, &resolved_by(resolver::names(NAMES.to_vec()), policy));
    assert!(bridge.report.boot.ipv6.is_some(), "{:?}", bridge.report.boot);
    let mut ask = |address: &str| guest.tcp(at(address, 8080), get("x").as_bytes());
    assert!(matches!(ask("2606:4700:44::10"), Tcp::Said(text) if text.starts_with(b"HTTP/1.1 200")));
    assert_eq!(open.try_iter().count(), 1);
    assert_eq!(ask("2606:4700:44::20"), Tcp::Refused, "a denied address in an allowed network");
    assert_eq!(ask("2606:4700:45::10"), Tcp::Refused, "outside of every entry");
    assert_eq!(closed.try_iter().count(), 0);
    drop(bridge.end(guest));

    let policy = config(NetworkProfile::Public, &[], &["second.example.com"]);
    let (_bridge, mut guest) = Bridge::start(case, &resolved_by(resolver::names(NAMES.to_vec()), policy));
    let mut ask = |address: &str| guest.tcp(at(address, 8080), get("x").as_bytes());
    assert!(matches!(ask("2606:4700:44::10"), Tcp::Said(_)), "public");
    for address in ["fe80::1", "fd00:ec2::254", "fc00::1", "::ffff:10.0.0.1", "2002:a00:1::1"] {
        assert_eq!(ask(address), Tcp::Refused, "{address}");
    }
    assert_eq!(guest.resolve("second.example.com"), Dns::Code(3));
}

/// The engine takes half of such an address for the host that no secret may go to. Where this fails, `FirstWords` and
/// docs/network.md need not say so.
#[test]
fn a_secret_closes_nothing_but_datagrams_where_it_is_put_in() {
    serve_if_asked();
    let case = "names::a_secret_closes_nothing_but_datagrams_where_it_is_put_in";
    let outside = in_own_network(case);
    let (world, address) = (World::new(), "2606:4700:44::10");
    let pages = world::serve(outside.listen(at(address, 8080)), |socket| socket);
    let pages_of_ipv4 = world::serve(outside.listen(at("44.55.66.10", 8080)), |socket| socket);
    let lines = outside.listen(at(address, 7000));
    std::thread::spawn(move || {
        for stream in lines.incoming() {
            let (mut stream, mut line) = (stream.unwrap(), [0; 64]);
            let count = stream.read(&mut line).unwrap();
            stream.write_all(&line[..count]).unwrap();
        }
    });
    // A name is listed as well, so that what connections say counts without a secret too.
    let policy = config(NetworkProfile::None, &[address, "44.55.66.10", "second.example.com"], &[]);
    let plainly = resolved_by(resolver::names(NAMES.to_vec()), policy);
    let secret = SecretSpec {
        name: "API_KEY".into(),
        hosts: vec!["second.example.com".parse().unwrap()],
        headers: vec!["authorization".into()],
        query: false,
        body: false,
        fingerprint: String::new(),
    };
    let keeping = BridgeConfig {
        secrets: Some(BridgeSecrets {
            secrets: vec![secret],
            values: SecretValues::from([("API_KEY".into(), SecretValue::new("sk-real-value".into()))]),
            authority: Authority::generate("test").unwrap(),
        }),
        ..plainly.clone()
    };
    let quic = outside.udp(at("44.55.66.10", 443));
    let others = outside.udp(at("44.55.66.10", 8443));
    for config in [&plainly, &keeping] {
        let (bridge, mut guest) = Bridge::start_trusting(case, config, false, Some(&world.root_pem));
        let ok = |said: &Tcp| matches!(said, Tcp::Said(text) if text.starts_with(b"HTTP/1.1 200"));
        for host in ["[2606:4700:44::10]:8080", "[2606:4700:44::10]"] {
            let said = guest.tcp(at(address, 8080), get(host).as_bytes());
            assert_eq!((ok(&said), pages.try_iter().count()), (true, 1), "{said:?}");
        }
        let said = guest.tcp(at("44.55.66.10", 8080), get("44.55.66.10:8080").as_bytes());
        assert_eq!((ok(&said), pages_of_ipv4.try_iter().count()), (true, 1), "{said:?}");
        assert_eq!(guest.tcp(at(address, 7000), b"a line\r\n"), Tcp::Said(b"a line\r\n".to_vec()));
        // HTTP/3 could not be looked into.
        let answers = config.secrets.is_none().then(|| b"words".to_vec());
        assert_eq!(guest.udp(at("44.55.66.10", 443), b"words"), answers);
        assert_eq!(guest.udp(at("44.55.66.10", 8443), b"words").as_deref(), Some(&b"words"[..]));
        assert_eq!((quic.try_iter().count(), others.try_iter().count()), (usize::from(answers.is_some()), 1));
        let events = bridge.events();
        let denied: Vec<_> = events.iter().filter(|event| event.verdict != Verdict::Allowed).collect();
        assert_eq!(denied.len(), usize::from(answers.is_none()), "{denied:?}");
        assert!(
            denied.iter().all(|event| event.rule.contains("HTTP/3") && event.opens.is_none()),
            "{denied:?}"
        );
        drop(bridge.end(guest));
    }
}

//! A host that reaches the world through a proxy.

use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use sandbox_model::{NetworkProfile, NoProxy, Proxies};
use sandbox_network::{BridgeConfig, Event, EventKind, Verdict};

use crate::own::in_own_network;
use crate::peer::{Dns, Peer, Tcp};
use crate::process::{Bridge, serve_if_asked};
use crate::proxies::{Proxy, Table};
use crate::tls;
use crate::world::{self, World};
use crate::{NXDOMAIN, at, config, resolved_by, resolver};

const PASSWORD: &str = "hunter22-in-the-proxy";
/// `me:hunter22-in-the-proxy`.
const AUTHORIZATION: &str = "Basic bWU6aHVudGVyMjItaW4tdGhlLXByb3h5";

fn through(proxy: &str, direct: &str, config: BridgeConfig) -> BridgeConfig {
    let proxies = Proxies::one(proxy.parse().unwrap(), NoProxy::lenient(direct));
    BridgeConfig { proxies: Some(proxies), ..config }
}

fn server() -> (SocketAddr, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    (listener.local_addr().unwrap(), world::serve(listener, |socket| socket))
}

fn table(entries: &[(&str, SocketAddr)]) -> Table {
    entries.iter().map(|(name, to)| ((*name).to_string(), *to)).collect()
}

fn get(host: &str) -> String {
    format!("GET /page HTTP/1.1\r\nHost: {host}\r\n\r\n")
}

fn is_ok(said: &Tcp) -> bool {
    matches!(said, Tcp::Said(text) if text.starts_with(b"HTTP/1.1 200"))
}

/// The address that the guest finds under a name.
fn found(guest: &mut Peer, name: &str) -> [u8; 4] {
    match guest.resolve(name) {
        Dns::Addresses(addresses) => addresses[0],
        other => panic!("{name}: {other:?}"),
    }
}

fn asked(proxy: &Proxy) -> Vec<String> {
    proxy.asked.try_iter().collect()
}

fn failures(events: &[Event]) -> Vec<String> {
    events.iter().filter(|event| event.verdict == Verdict::Failed).map(|event| event.rule.clone()).collect()
}

#[test]
fn what_is_allowed_leaves_through_the_proxy_by_name_and_nothing_else_does() {
    serve_if_asked();
    let case = "upstream::what_is_allowed_leaves_through_the_proxy_by_name_and_nothing_else_does";
    let outside = in_own_network(case);
    let world = World::new();
    let secure = TcpListener::bind("127.0.0.1:0").unwrap();
    let secure_at = secure.local_addr().unwrap();
    let secure = world.https(secure, &["open.example.com", "closed.example.com"]);
    let (plain_at, plain) = server();
    let proxy = Proxy::http(
        table(&[
            ("open.example.com:443", secure_at),
            ("open.example.com:80", plain_at),
            ("open.example.com:8080", plain_at),
            ("closed.example.com:443", secure_at),
            ("closed.example.com:80", plain_at),
            ("44.55.66.20:8080", plain_at),
        ]),
        Some(AUTHORIZATION),
    );
    let direct = world::serve(outside.listen(at([44, 55, 66, 10], 8080)), |socket| socket);
    // No resolver answers: this host knows no name of the world.
    let policy = config(
        NetworkProfile::None,
        &["open.example.com", "44.55.66.0/24:8080", "127.0.0.1.nip.example"],
        &[],
    );
    let url = format!("http://me:{PASSWORD}@127.0.0.1:{}", proxy.port);
    let (bridge, mut guest) = Bridge::start(case, &through(&url, "44.55.66.10", policy));

    let open = found(&mut guest, "open.example.com");
    assert_eq!(open[..2], [198, 19], "a placeholder");
    let said =
        tls::https(&mut guest, at(open, 443), "open.example.com", &world.root_pem, &get("open.example.com"));
    assert!(said.said().starts_with("HTTP/1.1 200"), "{said:?}");
    assert_eq!(asked(&proxy), ["CONNECT open.example.com:443 HTTP/1.1"]);
    assert_eq!(secure.try_iter().count(), 1);
    // A port that is neither.
    assert!(is_ok(&guest.tcp(at(open, 8080), get("open.example.com").as_bytes())));
    assert_eq!(asked(&proxy), ["CONNECT open.example.com:8080 HTTP/1.1"]);
    assert!(!plain.try_recv().unwrap().contains("Authorization"));
    // Plain HTTP, and what a guest would like to add to it.
    let words = format!("{}GET /second HTTP/1.1\r\nHost: open.example.com\r\n\r\n", get("open.example.com"));
    assert!(is_ok(&guest.tcp(at(open, 80), words.as_bytes())));
    assert_eq!(asked(&proxy), ["GET http://open.example.com/page HTTP/1.1"]);
    let seen: Vec<String> = plain.try_iter().collect();
    assert!(
        seen.len() == 1 && seen[0].starts_with("GET /page") && !seen[0].contains("Authorization"),
        "{seen:?}"
    );

    let words = format!(
        "{}GET http://closed.example.com/ HTTP/1.1\r\nHost: closed.example.com\r\n\r\n",
        get("open.example.com")
    );
    let _ = guest.tcp(at(open, 80), words.as_bytes());
    assert!(!asked(&proxy).iter().any(|line| line.contains("closed.example.com")));
    let _ = plain.try_iter().count();

    // Denied stays denied: the proxy is not asked at all.
    assert_eq!(guest.resolve("closed.example.com"), NXDOMAIN);
    let said = tls::https(
        &mut guest,
        at(open, 443),
        "closed.example.com",
        &world.root_pem,
        &get("closed.example.com"),
    );
    assert!(!matches!(&said, tls::Tls::Said(text) if text.contains("200 OK")), "another name: {said:?}");
    assert!(!is_ok(&guest.tcp(at(open, 80), get("closed.example.com").as_bytes())));
    assert_eq!(
        guest.tcp(at([198, 19, 9, 9], 8080), get("x").as_bytes()),
        Tcp::Refused,
        "nobody's placeholder"
    );
    assert_eq!(guest.tcp(at([44, 55, 66, 20], 8081), get("x").as_bytes()), Tcp::Refused);
    assert_eq!(asked(&proxy), Vec::<String>::new());
    assert_eq!(secure.try_iter().count(), 0);

    // Addresses: one through the proxy, one that NO_PROXY names.
    assert!(is_ok(&guest.tcp(at([44, 55, 66, 20], 8080), get("x").as_bytes())));
    assert_eq!(asked(&proxy), ["CONNECT 44.55.66.20:8080 HTTP/1.1"]);
    assert!(is_ok(&guest.tcp(at([44, 55, 66, 10], 8080), get("x").as_bytes())));
    assert_eq!((asked(&proxy).len(), direct.try_iter().count()), (0, 1));
    let echo = outside.udp(at([44, 55, 66, 10], 8080));
    assert_eq!(guest.udp(at([44, 55, 66, 10], 8080), b"ping").as_deref(), Some(&b"ping"[..]));
    echo.recv().unwrap();
    let echo = outside.udp(at([44, 55, 66, 20], 8080));
    assert_eq!(guest.udp(at([44, 55, 66, 20], 8080), b"ping"), None, "a proxy carries no datagrams");
    assert!(echo.try_recv().is_err());

    let events = bridge.events();
    let rule = |address: SocketAddr| {
        let found = events.iter().find(|event| event.address == Some(address.to_string()));
        found.map(|event| (event.verdict, event.name.clone(), event.rule.clone())).unwrap()
    };
    let (verdict, name, why) = rule(at(open, 443));
    assert_eq!((verdict, name.as_deref()), (Verdict::Allowed, Some("open.example.com")));
    assert_eq!(why, "egress-allow has `open.example.com`, through the proxy");
    assert_eq!(rule(at([44, 55, 66, 10], 8080)).2, "egress-allow has `44.55.66.0/24:8080`");
    // Who was refused for its name is told by it, and not by the address that stands for another.
    for kind in [EventKind::Tls, EventKind::Http] {
        let refused =
            events.iter().find(|event| event.verdict == Verdict::Denied && event.kind == kind).unwrap();
        assert_eq!((refused.name.as_deref(), refused.address.as_deref()), (Some("closed.example.com"), None));
        assert!(refused.opens.as_deref().unwrap().starts_with("closed.example.com:"), "{refused:?}");
    }
    let (said, _) = bridge.end(guest);
    assert!(!format!("{said} {events:?}").contains(PASSWORD));
}

#[test]
fn a_name_that_the_host_knows_keeps_its_address_and_its_rules() {
    serve_if_asked();
    let (plain_at, _plain) = server();
    let proxy = Proxy::http(
        table(&[
            ("open.example.com:8080", plain_at),
            ("any.example.com:8080", plain_at),
            ("44.55.66.30:8080", plain_at),
            ("44.55.66.30:80", plain_at),
            ("shut.example.com:8080", plain_at),
        ]),
        None,
    );
    let known = vec![
        ("open.example.com", "44.55.66.10", ""),
        ("any.example.com", "44.55.66.30", ""),
        ("shut.example.com", "44.55.66.20", ""),
        ("inside.example.com", "10.1.1.1", ""),
        ("x.198-19-0-9.example", "198.19.0.9", ""),
    ];
    let policy = config(
        NetworkProfile::Public,
        &["open.example.com", "listed.example.com", "x.198-19-0-9.example"],
        &["44.55.66.20", "bad.example.com"],
    );
    let policy = resolved_by(resolver::names(known), policy);
    let url = format!("127.0.0.1:{}", proxy.port);
    let case = "upstream::a_name_that_the_host_knows_keeps_its_address_and_its_rules";
    let (bridge, mut guest) = Bridge::start(case, &through(&url, ".corp.example", policy));
    assert_eq!(found(&mut guest, "open.example.com"), [44, 55, 66, 10]);
    assert!(is_ok(&guest.tcp(at([44, 55, 66, 10], 8080), get("open.example.com").as_bytes())));
    assert_eq!(asked(&proxy), ["CONNECT open.example.com:8080 HTTP/1.1"], "by its name");
    // One that nobody wrote down: the proxy is on this host, and could find it anywhere, the host itself included.
    assert_eq!(found(&mut guest, "any.example.com"), [44, 55, 66, 30]);
    for (port, line) in [(8080, "CONNECT 44.55.66.30:8080 HTTP/1.1"), (80, "CONNECT 44.55.66.30:80 HTTP/1.1")]
    {
        assert!(is_ok(&guest.tcp(at([44, 55, 66, 30], port), get("any.example.com").as_bytes())), "{port}");
        assert_eq!(asked(&proxy), [line], "by the address that was judged");
    }
    // Its address is denied, whatever the proxy could do.
    assert_eq!(found(&mut guest, "shut.example.com"), [44, 55, 66, 20]);
    assert_eq!(guest.tcp(at([44, 55, 66, 20], 8080), get("x").as_bytes()), Tcp::Refused);
    assert_eq!(guest.resolve("inside.example.com"), NXDOMAIN, "a private address");
    // What only means something here is no business of the proxy.
    for name in ["10.0.0.1", "0x7f.1", "localhost", "proxy", "metadata.google.internal", "git.corp.example"] {
        assert_eq!(guest.resolve(name), NXDOMAIN, "{name}");
    }
    assert_eq!(guest.resolve("bad.example.com"), NXDOMAIN, "denied by name");
    assert_eq!(found(&mut guest, "listed.example.com")[..2], [198, 19]);
    assert_eq!(guest.resolve("unknown.example.com"), NXDOMAIN);
    assert_ne!(found(&mut guest, "x.198-19-0-9.example"), [198, 19, 0, 9], "no placeholder of somebody else");
    assert_eq!(asked(&proxy), Vec::<String>::new());
    // Datagrams have no way out, and that is told.
    assert_eq!(guest.udp(at([44, 55, 66, 30], 123), b"time"), None);
    let events = bridge.events();
    let udp = events.iter().find(|event| event.kind == EventKind::Udp).unwrap();
    assert_eq!(
        (udp.verdict, udp.rule.as_str()),
        (Verdict::Failed, "profile public, but the proxy carries no datagrams")
    );
}

#[test]
fn a_proxy_that_fails_is_told_and_the_guest_does_not_wait() {
    serve_if_asked();
    let case = "upstream::a_proxy_that_fails_is_told_and_the_guest_does_not_wait";
    let locked = Proxy::http(Table::new(), Some(AUTHORIZATION));
    let open = Proxy::http(Table::new(), None);
    let socks = Proxy::socks(Table::new(), Some(("me", PASSWORD)));
    // Bound and dropped: nobody is there.
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for (url, said) in [
        (format!("http://127.0.0.1:{}", locked.port), "wants a user and a password"),
        (format!("http://me:wrong-{PASSWORD}@127.0.0.1:{}", locked.port), "refuses the user or the password"),
        (format!("http://127.0.0.1:{}", open.port), "refuses this destination (403)"),
        (format!("socks5://127.0.0.1:{}", socks.port), "wants a user and a password"),
        (
            format!("socks5://me:wrong-{PASSWORD}@127.0.0.1:{}", socks.port),
            "refuses the user or the password",
        ),
        (format!("socks5h://me:{PASSWORD}@127.0.0.1:{}", socks.port), "not allowed by ruleset"),
        (format!("http://127.0.0.1:{gone}"), "cannot be reached"),
    ] {
        let policy = config(NetworkProfile::None, &["open.example.com", "44.55.66.20"], &[]);
        let (bridge, mut guest) = Bridge::start(case, &through(&url, "", policy));
        let open = found(&mut guest, "open.example.com");
        let begin = Instant::now();
        for to in [at(open, 8080), at([44, 55, 66, 20], 22), at(open, 80)] {
            let answer = guest.tcp(to, get("open.example.com").as_bytes());
            assert!(!is_ok(&answer) && answer != Tcp::Silent, "{url}: {answer:?}");
        }
        assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
        let events = bridge.events();
        let failures = failures(&events);
        // Proxies of plain HTTP answer for themselves.
        assert!(
            failures.len() >= 2 && failures.iter().all(|rule| rule.contains(said)),
            "{url}: {failures:?}"
        );
        let plain = events
            .iter()
            .any(|event| event.verdict == Verdict::Failed && event.address == Some(at(open, 80).to_string()));
        // Who it is that asks only the proxy wants to know; its other refusals may be the server's.
        assert!(plain || !said.contains("password") || url.starts_with("socks"), "{url}: {events:?}");
        let (lines, _) = bridge.end(guest);
        assert!(lines.contains("network: failed tcp "), "{lines}");
        assert!(!format!("{lines} {events:?}").contains(PASSWORD), "{lines}");
    }
}

#[test]
fn socks_proxies_get_names_or_addresses_and_https_ones_must_prove_who_they_are() {
    serve_if_asked();
    let case = "upstream::socks_proxies_get_names_or_addresses_and_https_ones_must_prove_who_they_are";
    let (plain_at, _plain) = server();
    let entries = table(&[
        ("open.example.com:8080", plain_at),
        ("44.55.66.10:8080", plain_at),
        ("unknown.example.com:8080", plain_at),
    ]);
    let socks = Proxy::socks(entries.clone(), Some(("me", PASSWORD)));
    let world = World::new();
    let secure = Proxy::https(entries, world.server(&["127.0.0.1"]));
    for (proxy, scheme, first) in [
        (&socks, format!("socks5h://me:{PASSWORD}@"), "open.example.com:8080"),
        (&socks, format!("socks5://me:{PASSWORD}@"), "44.55.66.10:8080"),
        (&secure, "https://".into(), "CONNECT open.example.com:8080 HTTP/1.1"),
    ] {
        let policy = config(NetworkProfile::None, &["open.example.com", "unknown.example.com"], &[]);
        let policy = resolved_by(resolver::names(vec![("open.example.com", "44.55.66.10", "")]), policy);
        let config = through(&format!("{scheme}127.0.0.1:{}", proxy.port), "", policy);
        let (_bridge, mut guest) = Bridge::start_trusting(case, &config, false, Some(&world.root_pem));
        assert_eq!(found(&mut guest, "open.example.com"), [44, 55, 66, 10]);
        assert!(
            is_ok(&guest.tcp(at([44, 55, 66, 10], 8080), get("open.example.com").as_bytes())),
            "{scheme}"
        );
        let unknown = found(&mut guest, "unknown.example.com");
        assert!(is_ok(&guest.tcp(at(unknown, 8080), get("unknown.example.com").as_bytes())), "{scheme}");
        let asked = asked(proxy);
        assert!(asked[0] == first && asked[1].contains("unknown.example.com:8080"), "{asked:?}");
    }
    // One that this host does not trust.
    let policy = config(NetworkProfile::None, &["open.example.com"], &[]);
    let config = through(&format!("https://127.0.0.1:{}", secure.port), "", policy);
    let (bridge, mut guest) = Bridge::start_trusting(case, &config, false, Some(&World::new().root_pem));
    let open = found(&mut guest, "open.example.com");
    assert!(!is_ok(&guest.tcp(at(open, 8080), get("open.example.com").as_bytes())));
    assert!(failures(&bridge.events())[0].contains("does not prove who it is"), "{:?}", bridge.events());
}

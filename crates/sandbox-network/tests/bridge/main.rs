//! A real bridge process with a guest that is a TCP/IP stack instead of a machine. All traffic stays on the
//! loopback: what a case expects to be refused never leaves the process.

#![allow(clippy::unwrap_used)]

mod cores;
mod first_words;
mod hidden_names;
mod names;
mod outlet;
mod own;
mod peer;
mod ping;
mod process;
mod proxies;
mod resolver;
mod secrets;
mod server_first;
mod servers;
mod tls;
mod upstream;
mod world;

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use peer::{Dns, Tcp};
use process::{Bridge, serve_if_asked};
use sandbox_model::{NetworkPolicy, NetworkProfile};
use sandbox_network::{BridgeConfig, EventKind, RunAs, Verdict};

const NXDOMAIN: Dns = Dns::Code(3);

fn config(profile: NetworkProfile, allow: &[&str], deny: &[&str]) -> BridgeConfig {
    let list = |entries: &[&str]| entries.iter().map(|text| (*text).to_string()).collect();
    let policy = NetworkPolicy {
        profile,
        egress_allow: list(allow),
        egress_deny: list(deny),
        // Nobody answers there: a case that resolves names says who does.
        dns_servers: vec!["127.0.0.1:9".into()],
    };
    BridgeConfig { policy, slot: 7, secrets: None, proxies: None, run_as: None, log: None }
}

fn resolved_by(port: u16, mut config: BridgeConfig) -> BridgeConfig {
    config.policy.dns_servers = vec![format!("127.0.0.1:{port}")];
    config
}

fn at(ip: impl Into<IpAddr>, port: u16) -> SocketAddr {
    SocketAddr::new(ip.into(), port)
}

#[test]
fn an_allowed_port_of_the_host_is_reached_and_no_other() {
    serve_if_asked();
    let ((allowed, _), (other, other_told)) = (servers::tcp("hello "), servers::tcp("never "));
    let (echo, silent) = (servers::udp(), servers::udp());
    let entries = [format!("host:{allowed}"), format!("host:{echo}")];
    let config = config(NetworkProfile::None, &[&entries[0], &entries[1]], &[]);
    let (bridge, mut guest) = Bridge::start("an_allowed_port_of_the_host_is_reached_and_no_other", &config);
    let host = guest.gateway;
    assert_eq!(guest.tcp(at(host, allowed), b"guest"), Tcp::Said(b"hello guest".to_vec()));
    assert_eq!(guest.tcp(at(host, other), b"guest"), Tcp::Refused);
    assert_eq!(guest.udp(at(host, echo), b"ping").as_deref(), Some(&b"ping"[..]));
    assert_eq!(guest.udp(at(host, silent), b"ping"), None);
    assert!(other_told.try_recv().is_err(), "the other server was reached");

    let (said, code) = bridge.end(guest);
    assert_eq!(code, Some(0), "the end of the guest is a normal end: {said}");
    assert!(said.contains(&format!("network: denied tcp {host}:{other}: the host; ")), "{said}");
    assert!(said.contains(&format!("egress-allow: [\"host:{silent}\"]")), "{said}");
    assert!(!said.contains(&format!(":{allowed}")), "{said}");
}

#[test]
fn a_denied_port_of_an_allowed_host_stays_closed() {
    serve_if_asked();
    let ((open, _), (closed, told)) = (servers::tcp("open "), servers::tcp("closed "));
    let denied = format!("host:{closed}");
    let config = config(NetworkProfile::None, &["host"], &[&denied]);
    let (bridge, mut guest) = Bridge::start("a_denied_port_of_an_allowed_host_stays_closed", &config);
    let host = guest.gateway;
    assert_eq!(guest.tcp(at(host, open), b"!"), Tcp::Said(b"open !".to_vec()));
    assert_eq!(guest.tcp(at(host, closed), b"!"), Tcp::Refused);
    assert!(told.try_recv().is_err(), "the denied server was reached");
    let (said, _) = bridge.end(guest);
    assert!(said.contains(&format!("egress-deny has `{denied}`")), "{said}");
}

#[test]
fn the_public_profile_does_not_reach_the_host_private_ranges_or_metadata() {
    serve_if_asked();
    let (server, told) = servers::tcp("secret ");
    let (positive, greeted) = servers::tcp("hello ");
    let entry = format!("host:{positive}");
    let config = config(NetworkProfile::Public, &[&entry], &[]);
    let (bridge, mut guest) =
        Bridge::start("the_public_profile_does_not_reach_the_host_private_ranges_or_metadata", &config);
    let host = guest.gateway;
    for to in [
        at(host, server),
        // These are the host to the host itself.
        at([127, 0, 0, 1], server),
        at([127, 9, 9, 9], server),
        at([10, 0, 0, 1], server),
        at([192, 168, 0, 1], server),
        at([169, 254, 169, 254], server),
        at([169, 254, 169, 254], 80),
        at([100, 100, 100, 200], 80),
    ] {
        assert_eq!(guest.tcp(to, b"GET / HTTP/1.0\r\n\r\n"), Tcp::Refused, "{to}");
    }
    // "This machine" to the host; the guest's own stack would not send there.
    guest.knock([0, 0, 0, 0], server);
    guest.knock([127, 0, 0, 1], server);
    assert!(told.recv_timeout(Duration::from_millis(500)).is_err(), "the host's server was reached");
    assert_eq!(guest.tcp(at(host, positive), b"!"), Tcp::Said(b"hello !".to_vec()));
    greeted.recv().unwrap();
    let IpAddr::V4(host) = host else { panic!("{host}") };
    guest.knock(host.octets(), positive);
    greeted.recv_timeout(Duration::from_secs(20)).expect("a frame made by hand does open a connection");
    let (said, _) = bridge.end(guest);
    assert!(
        said.contains("169.254.169.254:80: link-local addresses, the metadata service among them"),
        "{said}"
    );
}

#[test]
fn without_a_profile_only_named_names_resolve() {
    serve_if_asked();
    let (port, asked) = servers::dns([44, 55, 66, 10]);
    let config = resolved_by(
        port,
        config(NetworkProfile::None, &["api.example.com:443", ".corp.example"], &["x.corp.example"]),
    );
    let (bridge, mut guest) = Bridge::start("without_a_profile_only_named_names_resolve", &config);
    let found = Dns::Addresses(vec![[44, 55, 66, 10]]);
    assert_eq!(guest.resolve("api.example.com"), found);
    assert_eq!(guest.resolve("deep.corp.example"), found);
    for name in ["example.com", "other.example.com", "x.corp.example", "host.microsandbox.internal"] {
        assert_eq!(guest.resolve(name), NXDOMAIN, "{name}");
    }
    let (said, _) = bridge.end(guest);
    assert_eq!(asked.try_iter().collect::<Vec<_>>(), ["api.example.com", "deep.corp.example"]);
    let opening = "network: denied name other.example.com: outside of profile none; egress-allow: [\"other.example.com\"] would open it";
    assert!(said.contains(opening), "{said}");
    assert!(said.contains("network: denied name x.corp.example: egress-deny has `x.corp.example`"), "{said}");
}

#[test]
fn the_public_profile_resolves_all_but_denied_names() {
    serve_if_asked();
    let (port, asked) = servers::dns([44, 55, 66, 10]);
    let config = resolved_by(port, config(NetworkProfile::Public, &[], &[".bad.example"]));
    let (bridge, mut guest) = Bridge::start("the_public_profile_resolves_all_but_denied_names", &config);
    assert_eq!(guest.resolve("good.example"), Dns::Addresses(vec![[44, 55, 66, 10]]));
    assert_eq!(guest.resolve("very.bad.example"), NXDOMAIN);
    assert_eq!(guest.resolve("bad.example"), NXDOMAIN);
    let host = guest.gateway;
    let IpAddr::V4(host) = host else { panic!("{host}") };
    assert_eq!(guest.resolve("host.microsandbox.internal"), Dns::Addresses(vec![host.octets()]));
    drop(bridge.end(guest));
    assert_eq!(asked.try_iter().collect::<Vec<_>>(), ["good.example"]);
}

#[test]
fn a_public_name_that_points_inside_does_not_resolve() {
    serve_if_asked();
    let (port, _) = servers::dns([10, 0, 0, 1]);
    let name = "a_public_name_that_points_inside_does_not_resolve";
    let closed = resolved_by(port, config(NetworkProfile::Public, &[], &[]));
    let (bridge, mut guest) = Bridge::start(name, &closed);
    assert_eq!(guest.resolve("rebind.example"), NXDOMAIN);
    let (said, _) = bridge.end(guest);
    assert!(said.contains("network: denied name rebind.example: it resolves to an address"), "{said}");

    let open = resolved_by(port, config(NetworkProfile::Public, &["10.0.0.0/24"], &[]));
    let (_bridge, mut guest) = Bridge::start(name, &open);
    assert_eq!(guest.resolve("rebind.example"), Dns::Addresses(vec![[10, 0, 0, 1]]));
}

#[test]
fn what_the_guest_did_is_told_with_names_addresses_and_rules() {
    serve_if_asked();
    let (web, _) = servers::tcp("hello ");
    let (closed, told) = servers::tcp("never ");
    let (dns, _) = servers::dns([44, 55, 66, 10]);
    let host = format!("host:{web}");
    let config = config(NetworkProfile::None, &[&host, "api.example.com:443"], &["bad.example.com"]);
    let (bridge, mut guest) =
        Bridge::start("what_the_guest_did_is_told_with_names_addresses_and_rules", &resolved_by(dns, config));
    let gateway = guest.gateway;
    assert_eq!(guest.tcp(at(gateway, web), b"!\r\n"), Tcp::Said(b"hello !\r\n".to_vec()));
    assert_eq!(guest.tcp(at(gateway, closed), b"!"), Tcp::Refused);
    assert_eq!(guest.resolve("api.example.com"), Dns::Addresses(vec![[44, 55, 66, 10]]));
    // Found under a name of which another port is open.
    assert_eq!(guest.tcp(at([44, 55, 66, 10], 22), b"!"), Tcp::Refused);
    assert_eq!(guest.resolve("bad.example.com"), NXDOMAIN);
    assert_eq!(guest.resolve("other.example.com"), NXDOMAIN);
    assert!(told.try_recv().is_err(), "the other server was reached");

    let events: Vec<String> = bridge
        .events()
        .into_iter()
        .map(|event| {
            assert!(event.at > 1_700_000_000_000, "{event:?}");
            let verdict = if event.verdict == Verdict::Allowed { "allowed" } else { "denied" };
            let of_name = event.name.filter(|_| event.kind != EventKind::Name).unwrap_or_default();
            let subject = event.address.unwrap_or_default();
            format!("{verdict} {} {of_name} {subject}: {} {:?}", event.kind.as_str(), event.rule, event.opens)
        })
        .collect();
    assert_eq!(
        events,
        [
            format!("allowed tcp  {gateway}:{web}: egress-allow has `{host}` None"),
            format!("denied tcp  {gateway}:{closed}: the host Some(\"host:{closed}\")"),
            "denied tcp api.example.com 44.55.66.10:22: outside of profile none Some(\"api.example.com:22\")"
                .into(),
            "denied name  : egress-deny has `bad.example.com` None".into(),
            "denied name  : outside of profile none Some(\"other.example.com\")".into(),
        ]
    );
    drop(bridge.end(guest));
}

/// The guest sees the same as after a refusal, and its user looks for a rule in vain.
#[test]
fn a_name_that_is_allowed_and_does_not_resolve_is_told() {
    serve_if_asked();
    let known = vec![("open.example.com", "44.55.66.10", ""), ("inside.example.com", "10.1.1.1", "")];
    let allowed = ["open.example.com", "gone.example.com", "inside.example.com"];
    let config = config(NetworkProfile::None, &allowed, &[]);
    let case = "a_name_that_is_allowed_and_does_not_resolve_is_told";
    let (bridge, mut guest) = Bridge::start(case, &resolved_by(resolver::names(known), config));
    assert_eq!(guest.resolve("open.example.com"), Dns::Addresses(vec![[44, 55, 66, 10]]));
    for name in ["gone.example.com", "GONE.example.com", "inside.example.com", "other.example.com"] {
        assert_eq!(guest.resolve(name), NXDOMAIN, "{name}");
    }
    let told: Vec<(Verdict, Option<String>, String)> =
        bridge.events().into_iter().map(|event| (event.verdict, event.name, event.rule)).collect();
    let failed: Vec<_> = told.iter().filter(|(verdict, ..)| *verdict == Verdict::Failed).collect();
    let why = "egress-allow has `gone.example.com`, but this host's resolver knows no such name";
    assert_eq!(failed, [&(Verdict::Failed, Some("gone.example.com".into()), why.into())], "{told:?}");
    // What was refused is told as that, once.
    let denied = told.iter().filter(|(verdict, ..)| *verdict == Verdict::Denied);
    let denied: Vec<&str> = denied.filter_map(|(_, name, _)| name.as_deref()).collect();
    assert_eq!(denied, ["inside.example.com", "other.example.com"], "{told:?}");
    let (said, _) = bridge.end(guest);
    assert!(said.contains("network: failed name gone.example.com: egress-allow has"), "{said}");
}

#[test]
fn much_passes_in_both_directions() {
    use std::io::{Read, Write};

    serve_if_asked();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let words: Vec<u8> = (0_u32..1_000_000).flat_map(u32::to_le_bytes).collect();
    let length = words.len();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut heard = vec![0; length];
        stream.read_exact(&mut heard).unwrap();
        stream.write_all(&heard).unwrap();
    });
    let config = config(NetworkProfile::Host, &[], &[]);
    let (_bridge, mut guest) = Bridge::start("much_passes_in_both_directions", &config);
    let to = at(guest.gateway, port);
    assert!(guest.tcp(to, &words) == Tcp::Said(words), "4 MB came back changed");
}

#[test]
fn the_guest_is_told_its_addresses() {
    serve_if_asked();
    let config = config(NetworkProfile::Public, &[], &[]);
    let (bridge, _guest) = Bridge::start("the_guest_is_told_its_addresses", &config);
    let boot = &bridge.report.boot;
    assert_eq!(boot.ipv4.as_deref(), Some("172.16.0.30/30"));
    assert_eq!(boot.ipv4_gateway.as_deref(), Some("172.16.0.29"));
    assert_eq!((boot.mtu, &boot.nameservers[..]), (1500, &["172.16.0.29".to_string()][..]));
    assert_eq!(boot.ipv6.is_some(), boot.ipv6_gateway.is_some());
    assert!(boot.hosts.contains(&("172.16.0.29".into(), "host.agents-sandbox.internal".into())));
    assert_eq!(boot.extra_ca_pem, None);
}

#[test]
fn the_process_keeps_no_rights() {
    serve_if_asked();
    let name = "the_process_keeps_no_rights";
    let field = |status: &str, name: &str| {
        let line = status.lines().find(|line| line.starts_with(&format!("{name}:"))).unwrap();
        line.split_whitespace().skip(1).map(String::from).collect::<Vec<_>>()
    };
    let run_as = Some(RunAs { uid: 65534, gid: 65534 });
    let config = config(NetworkProfile::Public, &[], &[]);
    let dropping = BridgeConfig { run_as, ..config.clone() };
    let as_root = field(&std::fs::read_to_string("/proc/self/status").unwrap(), "Uid")[1] == "0";
    if as_root {
        // Named or not, it becomes someone else.
        for config in [&dropping, &config] {
            let (bridge, _guest) = Bridge::start(name, config);
            let status = &bridge.report.status;
            assert_eq!(field(status, "Uid"), ["65534"; 4]);
            assert_eq!(field(status, "Gid"), ["65534"; 4]);
            assert_eq!(field(status, "Groups"), Vec::<String>::new());
        }
    } else {
        let said = Bridge::fails(name, &dropping);
        assert!(said.contains("error: the bridge cannot drop its rights"), "{said}");
    }
    let (bridge, _guest) = Bridge::start(name, &config);
    assert_eq!(field(&bridge.report.status, "NoNewPrivs"), ["1"]);
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert_eq!(field(&bridge.report.status, set), ["0000000000000000"], "{set}");
    }
}

#[test]
fn the_process_dies_with_its_parent() {
    serve_if_asked();
    let config = config(NetworkProfile::Public, &[], &[]);
    let (mut parent, guest) = Bridge::start_below("the_process_dies_with_its_parent", &config, true);
    let process = std::path::PathBuf::from(format!("/proc/{}", parent.report.pid));
    assert!(process.exists());
    // The guest's end stays open, so that it is not its end which ends the bridge.
    parent.kill();
    let begin = Instant::now();
    while is_alive(&process) {
        assert!(begin.elapsed() < Duration::from_secs(10), "the bridge outlives its parent");
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(guest);
}

/// A zombie that nobody reaps yet is dead.
fn is_alive(process: &std::path::Path) -> bool {
    std::fs::read_to_string(process.join("stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn bytes_that_are_no_frames_end_the_bridge_with_an_error() {
    serve_if_asked();
    let config = config(NetworkProfile::Public, &[], &[]);
    let (bridge, mut guest) = Bridge::start("bytes_that_are_no_frames_end_the_bridge_with_an_error", &config);
    // Frames of rubbish are the guest's right.
    for length in [0_u32, 1, 13, 14, 40, 1500] {
        guest.raw(&length.to_be_bytes());
        guest.raw(&vec![0xff; length as usize]);
    }
    guest.raw(&[0xff; 8]);
    let (said, code) = bridge.end(guest);
    assert_eq!(code, Some(1));
    assert!(said.contains("error: QEMU announced a frame of 4294967295 bytes"), "{said}");
}

#[test]
fn a_policy_with_a_mistake_does_not_start() {
    serve_if_asked();
    let name = "a_policy_with_a_mistake_does_not_start";
    let said = Bridge::fails(name, &config(NetworkProfile::None, &["https://x"], &[]));
    assert!(said.contains("error: egress-allow: `https://x`"), "{said}");
    let said = Bridge::fails(name, &BridgeConfig { slot: 16_384, ..config(NetworkProfile::Host, &[], &[]) });
    assert!(said.contains("error: network slot 16384 is larger than 16383"), "{said}");
}

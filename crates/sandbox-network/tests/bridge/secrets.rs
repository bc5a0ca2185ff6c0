//! Secrets: the real value reaches the hosts it is for, inside TLS that is verified, and nobody else.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use sandbox_model::{SecretSpec, SecretValue};
use sandbox_network::{Authority, BridgeConfig, BridgeSecrets, EventKind};

use crate::own::{Outside, in_own_network};
use crate::peer::Peer;
use crate::process::{Bridge, serve_if_asked};
use crate::tls::{self, Tls};
use crate::world::{self, World};
use crate::{config, resolved_by, resolver};

const VALUE: &str = "sk-real-value-0123456789";
const NAMES: [(&str, &str, &str); 3] = [
    ("api.example.com", "44.55.66.10", "2606:4700:44::10"),
    ("other.example.com", "44.55.66.20", "2606:4700:44::20"),
    ("untrusted.example.com", "44.55.66.30", "2606:4700:44::30"),
];

fn at(last: u8, port: u16) -> SocketAddr {
    SocketAddr::new(Ipv4Addr::new(44, 55, 66, last).into(), port)
}

fn secret(change: impl FnOnce(&mut SecretSpec)) -> SecretSpec {
    let mut secret = SecretSpec {
        name: "API_KEY".into(),
        hosts: vec!["api.example.com".parse().unwrap(), "untrusted.example.com".parse().unwrap()],
        headers: vec!["authorization".into()],
        query: false,
        body: false,
        fingerprint: String::new(),
    };
    change(&mut secret);
    secret
}

/// The world, the guest, and what it was told to trust.
struct Case {
    bridge: Bridge,
    guest: Peer,
    trusted: String,
    api: Receiver<String>,
    other: Receiver<String>,
    untrusted: Receiver<String>,
    plain: Receiver<String>,
}

fn begin(case: &str, outside: &Outside, secret: SecretSpec) -> Case {
    let world = World::new();
    let api = world.https(outside.listen(at(10, 443)), &["api.example.com"]);
    let other = world.https(outside.listen(at(20, 443)), &["other.example.com"]);
    // Signed by an authority that the world does not know.
    let untrusted = World::new().https(outside.listen(at(30, 443)), &["untrusted.example.com"]);
    let plain = world::serve(outside.listen(at(10, 80)), |socket| socket);
    let names: Vec<&str> = NAMES.iter().map(|(name, _, _)| *name).collect();
    let allowed = config(sandbox_model::NetworkProfile::None, &names, &[]);
    let config = BridgeConfig {
        secrets: Some(BridgeSecrets {
            values: [(secret.name.clone(), SecretValue::new(VALUE.into()))].into(),
            secrets: vec![secret],
            authority: Authority::generate("test").unwrap(),
        }),
        ..resolved_by(resolver::names(NAMES.to_vec()), allowed)
    };
    let (bridge, mut guest) = Bridge::start_trusting(case, &config, false, Some(&world.root_pem));
    for (name, _, _) in NAMES {
        guest.resolve(name);
    }
    let trusted = bridge.report.boot.extra_ca_pem.clone().unwrap();
    Case { bridge, guest, trusted, api, other, untrusted, plain }
}

impl Case {
    fn ask(&mut self, last: u8, name: &str, request: &str) -> Tls {
        tls::https(&mut self.guest, at(last, 443), name, &self.trusted, request)
    }
}

/// The next request.
#[track_caller]
fn heard(requests: &Receiver<String>) -> String {
    requests.recv_timeout(Duration::from_secs(20)).expect("no request arrived")
}

fn get(host: &str, path: &str, header: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{header}\r\nConnection: close\r\n\r\n")
}

#[test]
fn the_value_reaches_its_host_and_the_stand_in_nobody_else() {
    serve_if_asked();
    let case = "secrets::the_value_reaches_its_host_and_the_stand_in_nobody_else";
    let outside = in_own_network(case);
    let mut case = begin(case, &outside, secret(|_| {}));
    let bearer = "Authorization: Bearer $MSB_API_KEY";
    // The door.
    let said = case.ask(10, "api.example.com", &get("api.example.com", "/", bearer));
    assert!(said.said().starts_with("HTTP/1.1 200"), "{said:?}");
    let got = heard(&case.api);
    assert!(got.contains(&format!("Authorization: Bearer {VALUE}\r\n")), "{got}");
    // This server answers with what it was asked; the guest does not see the value in it.
    let stars = "*".repeat(VALUE.len());
    assert!(said.said().contains(&format!("Authorization: Bearer {stars}\r\n")), "{said:?}");
    // `user:$MSB_API_KEY`, as git sends it.
    let basic = "Authorization: Basic dXNlcjokTVNCX0FQSV9LRVk=";
    case.ask(10, "api.example.com", &get("api.example.com", "/", basic));
    let got = heard(&case.api);
    assert!(got.contains("Basic dXNlcjpzay1yZWFsLXZhbHVlLTAxMjM0NTY3ODk=\r\n"), "{got}");

    // The walls: a host that is open, and not the secret's.
    let said = case.ask(20, "other.example.com", &get("other.example.com", "/", bearer));
    assert!(said.said().starts_with("HTTP/1.1 403"), "{said:?}");
    assert!(case.other.try_recv().is_err(), "the request passed");
    case.ask(20, "other.example.com", &get("other.example.com", "/", "X-Plain: yes"));
    assert!(heard(&case.other).contains("X-Plain: yes"), "without a secret it does pass");
    // Its own host without TLS.
    let open = get("api.example.com", "/", bearer);
    case.guest.tcp(at(10, 80), open.as_bytes());
    assert!(heard(&case.plain).contains("Authorization: Bearer $MSB_API_KEY\r\n"), "the stand-in alone");
    // Its own host by a certificate that proves nothing.
    let said = case.ask(30, "untrusted.example.com", &get("untrusted.example.com", "/", bearer));
    assert!(said.said().starts_with("HTTP/1.1 502") && said.said().contains("certificate"), "{said:?}");
    assert!(case.untrusted.try_recv().is_err(), "the request reached who is not verified");
    // Its own host's name for another's address, and the other way round.
    let said = case.ask(20, "api.example.com", &get("api.example.com", "/", bearer));
    assert!(!matches!(said, Tls::Said(ref text) if text.starts_with("HTTP/1.1 200")), "{said:?}");
    let said = case.ask(10, "api.example.com", &get("other.example.com", "/", bearer));
    assert!(!matches!(said, Tls::Said(ref text) if text.starts_with("HTTP/1.1 200")), "{said:?}");
    assert!(case.other.try_recv().is_err() && case.api.try_recv().is_err());

    let refused: Vec<_> =
        case.bridge.events().into_iter().filter(|event| event.kind == EventKind::Secret).collect();
    assert!(refused.iter().any(|event| event.name.as_deref() == Some("other.example.com")), "{refused:?}");
    let (said, _) = case.bridge.end(case.guest);
    assert!(said.contains("API_KEY") && !said.contains(VALUE), "{said}");
}

#[test]
fn the_value_is_put_in_where_the_definition_says_and_nowhere_else() {
    serve_if_asked();
    let name = "secrets::the_value_is_put_in_where_the_definition_says_and_nowhere_else";
    let outside = in_own_network(name);
    let post = "POST /?key=$MSB_API_KEY HTTP/1.1\r\nHost: api.example.com\r\nOrigin: $MSB_API_KEY\r\n\
         Content-Length: 12\r\nConnection: close\r\n\r\n$MSB_API_KEY";
    let mut case = begin(name, &outside, secret(|_| {}));
    case.ask(10, "api.example.com", post);
    let got = heard(&case.api);
    // A field that servers repeat in their answers would tell the guest the value.
    assert!(got.contains("Origin: $MSB_API_KEY\r\n") && !got.contains(VALUE), "{got}");
    assert!(
        got.starts_with("POST /?key=$MSB_API_KEY HTTP/1.1\r\n") && got.ends_with("$MSB_API_KEY"),
        "{got}"
    );
}

#[test]
fn queries_bodies_and_other_headers_have_the_value_where_they_are_named() {
    serve_if_asked();
    let name = "secrets::queries_bodies_and_other_headers_have_the_value_where_they_are_named";
    let outside = in_own_network(name);
    let mut case = begin(
        name,
        &outside,
        secret(|secret| {
            secret.headers = vec!["*".into()];
            (secret.query, secret.body) = (true, true);
        }),
    );
    let post = "POST /?key=$MSB_API_KEY HTTP/1.1\r\nHost: api.example.com\r\nX-Own: $MSB_API_KEY\r\n\
         Content-Length: 12\r\nConnection: close\r\n\r\n$MSB_API_KEY";
    case.ask(10, "api.example.com", post);
    let got = heard(&case.api);
    assert!(got.starts_with(&format!("POST /?key={VALUE} HTTP/1.1\r\n")), "{got}");
    assert!(got.contains(&format!("X-Own: {VALUE}\r\n")), "{got}");
    assert!(got.ends_with(&format!("\r\n\r\n{VALUE}")), "{got}");
}

#[test]
fn another_value_counts_from_the_next_connection_on() {
    use std::io::Write;

    serve_if_asked();
    let name = "secrets::another_value_counts_from_the_next_connection_on";
    let outside = in_own_network(name);
    let mut case = begin(name, &outside, secret(|_| {}));
    let request = get("api.example.com", "/", "Authorization: Bearer $MSB_API_KEY");
    let carries = |case: &mut Case| {
        case.ask(10, "api.example.com", &request);
        let got = heard(&case.api);
        got.lines().find_map(|line| line.strip_prefix("Authorization: Bearer ")).unwrap().to_string()
    };
    assert_eq!(carries(&mut case), VALUE);
    let mut pipe = case.bridge.values();
    for value in ["sk-second-0123456789", "sk-third-0123456789"] {
        let orders = [
            sandbox_model::SecretValues::from([("UNKNOWN".into(), SecretValue::new("sk-unknown".into()))]),
            [("API_KEY".to_string(), SecretValue::new(value.into()))].into(),
        ];
        for order in orders {
            pipe.write_all(&serde_json::to_vec(&order).unwrap()).unwrap();
        }
        // It is told by pipe, and says nothing when it has it.
        let begin = std::time::Instant::now();
        while carries(&mut case) != value {
            assert!(begin.elapsed() < Duration::from_secs(20), "the value did not change");
        }
    }
    drop(pipe);
    assert_eq!(carries(&mut case), "sk-third-0123456789", "the end of the pipe changes nothing");
    let (said, _) = case.bridge.end(case.guest);
    assert!(said.contains("UNKNOWN") && !said.contains("sk-"), "{said}");
}

#[test]
fn a_value_that_is_missing_is_no_start() {
    serve_if_asked();
    let mut config = config(sandbox_model::NetworkProfile::Public, &[], &[]);
    config.secrets = Some(BridgeSecrets {
        secrets: vec![secret(|_| {})],
        values: sandbox_model::SecretValues::new(),
        authority: Authority::generate("test").unwrap(),
    });
    let said = Bridge::fails("secrets::a_value_that_is_missing_is_no_start", &config);
    assert!(said.contains("error: the value of the secret API_KEY is missing"), "{said}");
}

#[test]
fn no_other_process_of_the_user_reads_the_bridge() {
    serve_if_asked();
    let config = config(sandbox_model::NetworkProfile::Public, &[], &[]);
    let (bridge, _guest) = Bridge::start("secrets::no_other_process_of_the_user_reads_the_bridge", &config);
    // The kernel gives the files of a process that must not be dumped to root alone.
    let owner = |pid: u32| std::fs::metadata(format!("/proc/{pid}/mem")).unwrap().uid();
    assert_eq!(owner(bridge.report.pid), 0);
    assert_eq!(owner(std::process::id()), std::fs::metadata("/proc/self").unwrap().uid());
}

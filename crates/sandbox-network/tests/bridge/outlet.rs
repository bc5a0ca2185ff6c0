//! What leaves a sandbox whose card another program serves. That program is played by the case: it speaks SOCKS to the
//! relay, and asks the resolver.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use sandbox_model::{NetworkPolicy, NetworkProfile, NoProxy, Proxies, SecretValue, SecretValues};
use sandbox_network::{Event, EventKind, OutletAddresses, OutletConfig, Verdict, outlet};

use crate::proxies::Proxy;
use crate::{resolver, servers, world};

const CONFIG: &str = "SANDBOX_TEST_OUTLET";
const EVENTS: &str = "SANDBOX_TEST_OUTLET_EVENTS";

fn serve_if_asked() {
    let Ok(config) = std::env::var(CONFIG) else { return };
    let config: OutletConfig = serde_json::from_str(&config).unwrap();
    let events = OpenOptions::new().append(true).open(std::env::var_os(EVENTS).unwrap()).unwrap();
    let ready = |at: &OutletAddresses| println!("\n{}", serde_json::to_string(at).unwrap());
    let end = || drop(std::io::stdin().read_to_end(&mut Vec::new()));
    let outcome = outlet(&config, Some(events), std::iter::empty::<SecretValues>(), ready, end);
    if let Err(error) = &outcome {
        eprintln!("error: {error}");
    }
    std::process::exit(i32::from(outcome.is_err()));
}

struct Outlet {
    child: Child,
    at: OutletAddresses,
    events: tempfile::NamedTempFile,
}

impl Outlet {
    fn start(case: &str, config: &OutletConfig) -> Self {
        let events = tempfile::NamedTempFile::new().unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", case, "--nocapture", "--test-threads=1"])
            .env(CONFIG, serde_json::to_string(config).unwrap())
            .env(EVENTS, events.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let line = out.lines().map_while(Result::ok).find(|line| line.starts_with('{')).expect("it came up");
        let at = serde_json::from_str(&line).unwrap();
        Self { child, at, events }
    }

    fn events(&self) -> Vec<Event> {
        let text = std::fs::read_to_string(self.events.path()).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// What a server says to a line, as a connection through the relay.
    fn say(&self, to: SocketAddr, password: &str, line: &str) -> Option<String> {
        let threads = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        threads.block_on(async {
            use tokio::io::{AsyncReadExt, AsyncWriteExt};
            let reached =
                tokio_socks::tcp::Socks5Stream::connect_with_password(self.at.relay, to, "msb", password)
                    .await;
            let mut stream = reached.ok()?;
            stream.write_all(line.as_bytes()).await.unwrap();
            let (mut said, mut chunk) = (Vec::new(), [0; 512]);
            while let Ok(count @ 1..) = stream.read(&mut chunk).await {
                said.extend_from_slice(&chunk[..count]);
            }
            Some(String::from_utf8(said).unwrap())
        })
    }

    /// The answer's code, and its address if it has one.
    fn resolve(&self, name: &str) -> (u8, Option<[u8; 4]>) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut query = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name.split('.') {
            query.push(u8::try_from(label.len()).unwrap());
            query.extend_from_slice(label.as_bytes());
        }
        query.extend_from_slice(&[0, 0, 1, 0, 1]);
        socket.send_to(&query, self.at.resolver).unwrap();
        let mut answer = [0; 512];
        let count = socket.recv(&mut answer).unwrap();
        let address = (answer[7] > 0).then(|| answer[count - 4..count].try_into().unwrap());
        (answer[3] & 15, address)
    }

    fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success(), "the end of the machine is a normal end");
    }
}

fn config(allow: &[&str], resolver: u16) -> OutletConfig {
    OutletConfig {
        policy: NetworkPolicy {
            profile: NetworkProfile::None,
            egress_allow: allow.iter().map(ToString::to_string).collect(),
            egress_deny: vec!["denied.example.com".into()],
            dns_servers: vec![format!("127.0.0.1:{resolver}")],
        },
        gateways: ["198.18.0.0/16".parse().unwrap(), "fd42:6d73:62::/48".parse().unwrap()],
        secrets: None,
        proxies: None,
        at: None,
        user: "msb".into(),
        password: SecretValue::new("its-own".into()),
        run_as: None,
        log: None,
    }
}

#[test]
fn names_and_connections_are_told_and_only_its_own_program_gets_out() {
    serve_if_asked();
    let case = "outlet::names_and_connections_are_told_and_only_its_own_program_gets_out";
    let names = resolver::names(vec![
        ("open.example.com", "44.55.66.10", ""),
        ("denied.example.com", "44.55.66.20", ""),
        ("shut.example.com", "44.55.66.30", ""),
    ]);
    let (port, told) = servers::tcp("hello ");
    let host = format!("host:{port}");
    let entries = ["open.example.com", "denied.example.com", "gone.example.com", &host];
    let first = Outlet::start(case, &config(&entries, names));
    assert_eq!(first.resolve("open.example.com"), (0, Some([44, 55, 66, 10])));
    for refused in
        ["denied.example.com", "shut.example.com", "gone.example.com", "-anything.shut.example.com"]
    {
        assert_eq!(first.resolve(refused), (3, None), "{refused}");
    }
    let to = SocketAddr::from(([127, 0, 0, 1], port));
    assert_eq!(first.say(to, "its-own", "guest").as_deref(), Some("hello guest"));
    assert!(told.try_recv().is_ok());
    assert_eq!(first.say(to, "another", "guest"), None);
    assert!(told.try_recv().is_err(), "whoever does not know the password gets nowhere");
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert_eq!(first.say(closed, "its-own", "guest"), None);

    let events = first.events();
    let told: Vec<_> =
        events.iter().map(|event| (event.kind, event.verdict, event.name.as_deref().unwrap_or(""))).collect();
    let host = sandbox_model::HOST_NAMES[0];
    assert_eq!(
        told,
        [
            (EventKind::Name, Verdict::Denied, "denied.example.com"),
            (EventKind::Name, Verdict::Denied, "shut.example.com"),
            (EventKind::Name, Verdict::Failed, "gone.example.com"),
            (EventKind::Name, Verdict::Denied, "\\-anything.shut.example.com"),
            (EventKind::Tcp, Verdict::Allowed, host),
            (EventKind::Tcp, Verdict::Failed, host),
        ],
        "{events:?}"
    );
    assert_eq!((events[0].opens.as_deref(), events[1].opens.as_deref()), (None, Some("shut.example.com")));

    // The next one is where the last one was, and elsewhere where somebody else is.
    let at = first.at;
    first.end();
    let again = OutletConfig { at: Some(at), ..config(&entries, names) };
    let second = Outlet::start(case, &again);
    assert_eq!(second.at, at);
    let third = Outlet::start(case, &again);
    assert!(third.at.relay != at.relay && third.at.resolver != at.resolver);
    assert_eq!(third.say(to, "its-own", "guest").as_deref(), Some("hello guest"));
    second.end();
    third.end();
}

#[test]
fn connections_leave_through_the_hosts_proxy_by_name() {
    serve_if_asked();
    let case = "outlet::connections_leave_through_the_hosts_proxy_by_name";
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = listener.local_addr().unwrap();
    let heard = world::serve(listener, |socket| socket);
    let proxy = Proxy::http([("open.example.com:8080".to_string(), server)].into(), None);
    let url = format!("http://127.0.0.1:{}", proxy.port);
    let proxies = Proxies::one(url.parse().unwrap(), NoProxy::lenient(""));
    let config = OutletConfig { proxies: Some(proxies), ..config(&["open.example.com"], 9) };
    let outlet = Outlet::start(case, &config);
    // Nobody here knows the name; the proxy does.
    let (code, address) = outlet.resolve("open.example.com");
    let address = address.expect("a placeholder");
    assert_eq!((code, &address[..2]), (0, &[198, 19][..]));
    let request = "GET / HTTP/1.1\r\nHost: open.example.com\r\nConnection: close\r\n\r\n";
    let said = outlet.say(SocketAddr::from((address, 8080)), "its-own", request);
    assert!(said.is_some_and(|said| said.starts_with("HTTP/1.1 200")));
    assert!(heard.try_recv().is_ok());
    assert_eq!(proxy.asked.try_iter().collect::<Vec<_>>(), ["CONNECT open.example.com:8080 HTTP/1.1"]);
    let events = outlet.events();
    assert_eq!(events.len(), 1, "{events:?}");
    assert!(events[0].rule.ends_with("through the proxy"), "{events:?}");
    outlet.end();
}

/// A guest that reaches this host's services says what it likes to every port of 127.0.0.1.
#[test]
fn datagrams_go_in_where_no_guest_can_send_any() {
    serve_if_asked();
    let outlet = Outlet::start("outlet::datagrams_go_in_where_no_guest_can_send_any", &config(&["host"], 9));
    let mut engine = TcpStream::connect(outlet.at.relay).unwrap();
    engine.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    engine.write_all(b"\x05\x01\x02\x01\x03msb\x07its-own\x05\x03\x00\x01\x00\x00\x00\x00\x00\x00").unwrap();
    let mut said = [0; 14];
    engine.read_exact(&mut said).unwrap();
    assert_eq!(said[..8], [5, 2, 1, 0, 5, 0, 0, 1]);
    let [a, b, c, d, high, low] = said[8..].try_into().unwrap();
    assert!(a == 127 && [b, c, d] != [0, 0, 1], "{said:?}");
    // The door.
    let (server, engine_side) =
        (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    server.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let [port_high, port_low] = server.local_addr().unwrap().port().to_be_bytes();
    let datagram = [&[0, 0, 0, 1, 127, 0, 0, 1, port_high, port_low], &b"words"[..]].concat();
    engine_side
        .send_to(&datagram, SocketAddr::from(([a, b, c, d], u16::from_be_bytes([high, low]))))
        .unwrap();
    let mut heard = [0; 16];
    let count = server.recv(&mut heard).unwrap();
    assert_eq!(&heard[..count], b"words");
    let events = outlet.events();
    assert!(
        events.iter().any(|event| (event.kind, event.verdict) == (EventKind::Udp, Verdict::Allowed)),
        "{events:?}"
    );
    outlet.end();
}

/// Unused ends of connections are closed by the relay.
#[test]
fn who_speaks_no_socks_gets_no_answer() {
    serve_if_asked();
    let outlet = Outlet::start("outlet::who_speaks_no_socks_gets_no_answer", &config(&["host"], 9));
    let mut stream = TcpStream::connect(outlet.at.relay).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut said = Vec::new();
    let _ = stream.read_to_end(&mut said);
    assert!(said.is_empty() || said == [5, 0xff], "{said:?}");
    outlet.end();
}

//! Servers that speak first, as those of mail, files and databases do.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use sandbox_model::NetworkProfile;
use sandbox_network::BridgeConfig;

use crate::own::in_own_network;
use crate::peer::{PATIENCE, Peer, Stream, Tcp};
use crate::process::{Bridge, serve_if_asked};
use crate::{config, resolved_by, resolver};

const NAMES: [(&str, &str, &str); 2] =
    [("mail.example.com", "44.55.66.10", ""), ("db.example.com", "44.55.66.20", "")];
/// At least so long the engine waits for a client's first words: 5 seconds, and it begins before the client does.
const WAIT: Duration = Duration::from_secs(4);

fn at(last: u8, port: u16) -> SocketAddr {
    SocketAddr::new(Ipv4Addr::new(44, 55, 66, last).into(), port)
}

/// Greets, and repeats one line.
fn greets(listener: TcpListener) {
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let mut socket = socket.unwrap();
            if socket.write_all(b"220 ready\r\n").is_err() {
                continue;
            }
            let mut line = String::new();
            let _ = BufReader::new(socket.try_clone().unwrap()).read_line(&mut line);
            let _ = socket.write_all(line.as_bytes());
        }
    });
}

/// How long a guest that says nothing waits for the greeting. Then it answers, and is heard.
fn greeted_after(guest: &mut Peer, to: SocketAddr) -> Duration {
    let begin = Instant::now();
    let mut stream = guest.open(to);
    let mut said = Vec::new();
    let mut wait = None;
    loop {
        assert!(begin.elapsed() < PATIENCE, "{to} says {:?}", String::from_utf8_lossy(&said));
        match guest.exchange(&mut stream, b"") {
            Stream::Refused => panic!("{to} is refused"),
            Stream::Ended => break,
            Stream::Data(bytes) => said.extend(bytes),
        }
        if wait.is_none() && said.ends_with(b"\r\n") {
            wait = Some(begin.elapsed());
            let _ = guest.exchange(&mut stream, b"EHLO guest\r\n");
        }
    }
    guest.close(&stream);
    assert_eq!(String::from_utf8(said).unwrap(), "220 ready\r\nEHLO guest\r\n");
    wait.unwrap()
}

fn start(case: &str, policy: BridgeConfig) -> (Bridge, Peer) {
    let (bridge, mut guest) = Bridge::start(case, &resolved_by(resolver::names(NAMES.to_vec()), policy));
    for (name, _, _) in NAMES {
        guest.resolve(name);
    }
    (bridge, guest)
}

#[test]
fn a_server_that_speaks_first_is_heard_and_a_name_alone_makes_it_wait() {
    serve_if_asked();
    let case = "server_first::a_server_that_speaks_first_is_heard_and_a_name_alone_makes_it_wait";
    let outside = in_own_network(case);
    for (last, port) in [(10, 25), (20, 3306), (20, 2525)] {
        greets(outside.listen(at(last, port)));
    }

    // Opened by its address beside its name, or by the profile beside names that are open and closed.
    let by_address = ["mail.example.com:25", "44.55.66.10:25", "db.example.com", "44.55.66.0/24"];
    let policies = [
        config(NetworkProfile::None, &by_address, &[".ads.example"]),
        config(
            NetworkProfile::Public,
            &["mail.example.com", "db.example.com"],
            &[".ads.example", "x.example"],
        ),
    ];
    for policy in policies {
        let (bridge, mut guest) = start(case, policy);
        greeted_after(&mut guest, at(10, 25));
        greeted_after(&mut guest, at(20, 3306));
        // The sign, whatever the hour, that nothing waits: the server's own refusal is the answer. A connection that
        // waits is taken before anybody is asked.
        assert_eq!(guest.tcp(at(20, 22), b""), Tcp::Refused);
        assert_eq!(guest.tcp(at(20, 21), b"words\n"), Tcp::Refused);
        let events = bridge.events();
        assert!(!events.iter().any(|event| event.rule.contains("waits")), "{events:?}");
        drop(bridge.end(guest));
    }

    // The limit. Where this fails because the greeting comes at once, the engine waits no longer: then names need not
    // come last in `compile`, and docs/network.md need not say so.
    let (bridge, mut guest) =
        start(case, config(NetworkProfile::None, &["mail.example.com:25", "db.example.com"], &[]));
    assert!(greeted_after(&mut guest, at(10, 25)) >= WAIT);
    assert!(greeted_after(&mut guest, at(20, 2525)) >= WAIT);
    let events = bridge.events();
    let told: Vec<_> = events.iter().map(|event| event.rule.as_str()).collect();
    let advice = ", and waits 5 s for the client to speak; an entry with the address does not";
    assert_eq!(
        told,
        [
            format!("egress-allow has `mail.example.com:25`{advice}"),
            "egress-allow has `db.example.com`".to_string(),
        ]
    );
    drop(bridge.end(guest));
}

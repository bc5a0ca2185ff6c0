//! What the guest talks to, on the host's loopback.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, UdpSocket};
use std::sync::mpsc::{Receiver, channel};

/// A TCP server that says `greeting` and what it heard, then closes. Returns its port, and a channel that
/// tells of every connection.
pub fn tcp(greeting: &'static str) -> (u16, Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (seen, told) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = seen.send(());
            let mut words = [0; 64];
            let count = stream.read(&mut words).unwrap_or(0);
            let _ = stream.write_all(greeting.as_bytes());
            let _ = stream.write_all(&words[..count]);
        }
    });
    (port, told)
}

/// A UDP server that sends everything back.
pub fn udp() -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut words = [0; 2048];
        while let Ok((count, from)) = socket.recv_from(&mut words) {
            let _ = socket.send_to(&words[..count], from);
        }
    });
    port
}

/// A resolver that knows these names, in both families, and no others.
pub fn names(known: &'static [(&'static str, &'static str, &'static str)]) -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut query = [0; 2048];
        while let Ok((_, from)) = socket.recv_from(&mut query) {
            let (name, end) = asked(&query);
            let found = known.iter().find(|(known, _, _)| *known == name);
            let (kind, data) = match (query[end + 2], found) {
                (1, Some((_, v4, _))) => (1, v4.parse::<Ipv4Addr>().unwrap().octets().to_vec()),
                (28, Some((_, _, v6))) => (28, v6.parse::<Ipv6Addr>().unwrap().octets().to_vec()),
                _ => (0, Vec::new()),
            };
            let (code, count) = if kind == 0 { (0x83, 0) } else { (0x80, 1) };
            let mut answer = query[..2].to_vec();
            answer.extend_from_slice(&[0x81, code, 0, 1, 0, count, 0, 0, 0, 0]);
            answer.extend_from_slice(&query[12..end + 5]);
            if count == 1 {
                answer.extend_from_slice(&[
                    0xc0,
                    0x0c,
                    0,
                    kind,
                    0,
                    1,
                    0,
                    0,
                    0,
                    60,
                    0,
                    u8::try_from(data.len()).unwrap(),
                ]);
                answer.extend_from_slice(&data);
            }
            let _ = socket.send_to(&answer, from);
        }
    });
    port
}

/// The name in a query, and where its last, empty label is.
fn asked(query: &[u8]) -> (String, usize) {
    let (mut at, mut labels) = (12, Vec::new());
    while query[at] != 0 {
        let length = usize::from(query[at]);
        labels.push(String::from_utf8_lossy(&query[at + 1..=at + length]).to_lowercase());
        at += 1 + length;
    }
    (labels.join("."), at)
}

/// A resolver that answers every name with one address. Returns its port, and the names it was asked for.
pub fn dns(address: [u8; 4]) -> (u16, Receiver<String>) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    let (seen, told) = channel();
    std::thread::spawn(move || {
        let mut query = [0; 2048];
        while let Ok((_, from)) = socket.recv_from(&mut query) {
            let (name, at) = asked(&query);
            let _ = seen.send(name);
            let mut answer = query[..2].to_vec();
            answer.extend_from_slice(&[0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
            answer.extend_from_slice(&query[12..at + 5]);
            answer.extend_from_slice(&[0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
            answer.extend_from_slice(&address);
            let _ = socket.send_to(&answer, from);
        }
    });
    (port, told)
}

//! A resolver with names of its own.
#![allow(clippy::unwrap_used)]

use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};

/// A resolver that knows these names, in both families, and no others.
pub fn names(known: Vec<(&'static str, &'static str, &'static str)>) -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut query = [0; 2048];
        while let Ok((_, from)) = socket.recv_from(&mut query) {
            let (name, end) = asked(&query);
            let found = known.iter().find(|(known, _, _)| *known == name);
            let (kind, data) = match (query[end + 2], found) {
                (1, Some((_, v4, _))) => (1, v4.parse::<Ipv4Addr>().unwrap().octets().to_vec()),
                (28, Some((_, _, v6))) if !v6.is_empty() => {
                    (28, v6.parse::<Ipv6Addr>().unwrap().octets().to_vec())
                }
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
pub fn asked(query: &[u8]) -> (String, usize) {
    let (mut at, mut labels) = (12, Vec::new());
    while query[at] != 0 {
        let length = usize::from(query[at]);
        labels.push(String::from_utf8_lossy(&query[at + 1..=at + length]).to_lowercase());
        at += 1 + length;
    }
    (labels.join("."), at)
}

//! What the guest talks to, on the host's loopback.

use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::sync::mpsc::{Receiver, channel};

use crate::resolver::asked;

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

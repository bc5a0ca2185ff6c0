//! Datagrams of the guest: they pass no proxy, so that only what is direct gets out.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::io::AsyncReadExt;
use tokio::net::{TcpStream, UdpSocket};

/// The largest datagram there is.
const MOST: usize = 65_535;

/// Where the engine's datagrams of one destination go in.
pub(super) struct Association {
    inside: UdpSocket,
}

impl Association {
    /// At an address of the loopback that nobody can guess: a guest that may reach this host's services says what it
    /// likes to any port of 127.0.0.1, where it could tell the engine's words from its own.
    pub async fn new() -> io::Result<Self> {
        let [.., a, b, c] = rand::random::<u32>().to_be_bytes();
        // Neither the network's own addresses, nor those that people use.
        let address = Ipv4Addr::new(127, a | 1, b, c.clamp(1, 254));
        Ok(Self { inside: UdpSocket::bind((address, 0)).await? })
    }

    pub fn address(&self) -> io::Result<SocketAddr> {
        self.inside.local_addr()
    }

    /// Carries datagrams between the engine and the first destination that is `direct`, until `engine` ends. The
    /// engine makes one association for each.
    pub async fn serve(self, engine: &mut TcpStream, direct: impl Fn(SocketAddr) -> bool) -> io::Result<()> {
        let (mut out, mut back) = (vec![0; MOST], vec![0; MOST]);
        let to = loop {
            tokio::select! {
                end = engine.read_u8() => return end.map(drop),
                got = self.inside.recv_from(&mut out) => {
                    let (count, from) = got?;
                    if let Some((to, data)) = unwrapped(&out[..count]).filter(|(to, _)| direct(*to)) {
                        self.inside.connect(from).await?;
                        break (to, data.to_vec());
                    }
                }
            }
        };
        let (to, first) = to;
        let any: IpAddr =
            if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let outside = UdpSocket::bind((any, 0)).await?;
        outside.connect(to).await?;
        outside.send(&first).await?;
        loop {
            tokio::select! {
                end = engine.read_u8() => return end.map(drop),
                got = self.inside.recv(&mut out) => {
                    if let Some((other, data)) = unwrapped(&out[..got?]) && other == to {
                        // One that cannot be sent is one that is lost.
                        let _ = outside.send(data).await;
                    }
                }
                got = outside.recv(&mut back) => {
                    // Nobody listens there: the next one may find somebody.
                    let Ok(count) = got else { continue };
                    let _ = self.inside.send(&wrapped(to, &back[..count])).await;
                }
            }
        }
    }
}

/// Destination and content of a datagram with the header of SOCKS 5; `None` for a fragment.
fn unwrapped(datagram: &[u8]) -> Option<(SocketAddr, &[u8])> {
    let (head, rest) = datagram.split_at_checked(4)?;
    let (ip, rest): (IpAddr, &[u8]) = match head {
        [_, _, 0, 1] => {
            let (ip, rest) = rest.split_first_chunk::<4>()?;
            (Ipv4Addr::from(*ip).into(), rest)
        }
        [_, _, 0, 4] => {
            let (ip, rest) = rest.split_first_chunk::<16>()?;
            (Ipv6Addr::from(*ip).into(), rest)
        }
        _ => return None,
    };
    let (port, data) = rest.split_first_chunk::<2>()?;
    Some((SocketAddr::new(ip.to_canonical(), u16::from_be_bytes(*port)), data))
}

fn wrapped(from: SocketAddr, data: &[u8]) -> Vec<u8> {
    let mut datagram = vec![0, 0, 0];
    match from.ip() {
        IpAddr::V4(ip) => {
            datagram.push(1);
            datagram.extend_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            datagram.push(4);
            datagram.extend_from_slice(&ip.octets());
        }
    }
    datagram.extend_from_slice(&from.port().to_be_bytes());
    datagram.extend_from_slice(data);
    datagram
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_wrapped_is_unwrapped() {
        for to in ["10.0.0.1:53", "[2001:db8::1]:123"] {
            let to = to.parse().unwrap();
            assert_eq!(unwrapped(&wrapped(to, b"data")), Some((to, &b"data"[..])));
        }
        assert_eq!(unwrapped(&[0, 0, 1, 1, 10, 0, 0, 1, 0, 53]), None, "a fragment");
    }

    proptest! {
        #[test]
        fn no_datagram_makes_it_panic(datagram in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = unwrapped(&datagram);
        }
    }
}

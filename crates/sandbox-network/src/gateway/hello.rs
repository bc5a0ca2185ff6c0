//! What a connection says first.

use std::io;
use std::time::Duration;

use rustls::server::Acceptor;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::timeout;

/// A hello takes no longer, and no more bytes.
const ENDS: Duration = Duration::from_secs(20);
const MOST: usize = 64 << 10;
/// The first byte of a handshake's record (RFC 8446, 5.1).
const HANDSHAKE: u8 = 22;

/// Who speaks first.
#[derive(Debug)]
pub(super) enum First {
    Guest(Hello),
    Server(Vec<u8>),
}

/// First words of a guest, to be said again.
#[derive(Debug)]
pub(super) struct Hello {
    pub bytes: Vec<u8>,
    pub tls: Option<Wanted>,
}

/// What a client of TLS asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// In lower case, without a last dot.
    pub name: Option<String>,
    pub protocols: Vec<Vec<u8>>,
}

pub(super) async fn hello(
    guest: &mut (impl AsyncRead + Unpin),
    server: &mut (impl AsyncRead + Unpin),
) -> io::Result<First> {
    let (mut bytes, mut from_server) = (Vec::new(), Vec::new());
    tokio::select! {
        read = guest.read_buf(&mut bytes) => drop(read?),
        // Whoever speaks TLS waits for the guest.
        read = server.read_buf(&mut from_server) => {
            read?;
            return Ok(First::Server(from_server));
        }
    }
    if bytes.first() != Some(&HANDSHAKE) {
        return Ok(First::Guest(Hello { bytes, tls: None }));
    }
    let hello = timeout(ENDS, rest(guest, bytes)).await.map_err(io::Error::other)??;
    Ok(First::Guest(hello))
}

async fn rest(guest: &mut (impl AsyncRead + Unpin), mut bytes: Vec<u8>) -> io::Result<Hello> {
    let (mut acceptor, mut seen) = (Acceptor::default(), 0);
    loop {
        while seen < bytes.len() {
            seen += acceptor.read_tls(&mut &bytes[seen..])?;
        }
        if let Some(accepted) = acceptor.accept().map_err(|(error, _)| io::Error::other(error))? {
            let asked = accepted.client_hello();
            let name = asked.server_name().map(|name| name.trim_end_matches('.').to_ascii_lowercase());
            let protocols = asked.alpn().into_iter().flatten().map(<[u8]>::to_vec).collect();
            return Ok(Hello { bytes, tls: Some(Wanted { name, protocols }) });
        }
        if bytes.len() > MOST || guest.read_buf(&mut bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

//! TLS on both sides: a server with an authority of its own, and a guest that trusts what it was told to.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};

use crate::peer::{Peer, Stream};

/// What the world outside trusts.
pub struct World {
    pub root_pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl World {
    pub fn new() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let root_pem = params.self_signed(&key).unwrap().pem();
        Self { root_pem, issuer: Issuer::new(params, key) }
    }

    /// A server of HTTPS for these names, which answers each request with itself. Tells of each request.
    pub fn https(&self, at: TcpListener, names: &[&str]) -> Receiver<String> {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &self.issuer).unwrap();
        let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        let config = Arc::new(config);
        serve(at, move |socket| {
            let tls = ServerConnection::new(Arc::clone(&config)).unwrap();
            rustls::StreamOwned::new(tls, socket)
        })
    }
}

/// A server of plain HTTP, which answers like [`World::https`].
pub fn http(at: TcpListener) -> Receiver<String> {
    serve(at, |socket| socket)
}

fn serve<S: Read + Write>(
    listener: TcpListener,
    wrap: impl Fn(std::net::TcpStream) -> S + Send + 'static,
) -> Receiver<String> {
    let (seen, told) = channel();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let socket = socket.unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            let mut stream = wrap(socket);
            let Some(request) = request(&mut stream) else { continue };
            let _ = seen.send(request.clone());
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{request}",
                request.len()
            );
            let _ = stream.write_all(answer.as_bytes()).and_then(|()| stream.flush());
        }
    });
    told
}

/// Head and body; `None` for a connection that never made a request.
fn request(stream: &mut impl Read) -> Option<String> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let count = stream.read(&mut chunk).ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&chunk[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| {
            line.to_ascii_lowercase().strip_prefix("content-length:").map(|text| text.trim().parse().unwrap())
        });
        if body.len() >= length.unwrap_or(0) {
            return Some(text);
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tls {
    /// No connection.
    Refused,
    /// A connection, and no answer in it.
    Closed,
    /// The server showed a certificate that the guest does not trust, or none.
    Untrusted(String),
    Said(String),
}

impl Tls {
    pub fn said(&self) -> &str {
        match self {
            Self::Said(text) => text,
            other => panic!("{other:?}"),
        }
    }
}

/// Makes a request inside TLS as a guest that trusts the authority in `trusted` alone.
pub fn https(guest: &mut Peer, to: SocketAddr, name: &str, trusted: &str, request: &str) -> Tls {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(trusted.as_bytes()) {
        roots.add(certificate.unwrap()).unwrap();
    }
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let mut tls =
        ClientConnection::new(Arc::new(config), ServerName::try_from(name.to_string()).unwrap()).unwrap();
    tls.writer().write_all(request.as_bytes()).unwrap();
    let mut stream = guest.open(to);
    let (mut said, mut outcome) = (Vec::new(), None);
    let begin = Instant::now();
    while outcome.is_none() && begin.elapsed() < Duration::from_secs(20) {
        let mut out = Vec::new();
        while tls.wants_write() {
            tls.write_tls(&mut out).unwrap();
        }
        match guest.exchange(&mut stream, &out) {
            Stream::Refused => outcome = Some(Tls::Refused),
            Stream::Data(bytes) => outcome = feed(&mut tls, &bytes, &mut said),
            Stream::Ended => outcome = Some(Tls::Closed),
        }
    }
    guest.close(stream);
    match outcome {
        Some(Tls::Closed) | None if !said.is_empty() => Tls::Said(String::from_utf8(said).unwrap()),
        Some(outcome) => outcome,
        None => Tls::Closed,
    }
}

fn feed(tls: &mut ClientConnection, mut bytes: &[u8], said: &mut Vec<u8>) -> Option<Tls> {
    while !bytes.is_empty() {
        tls.read_tls(&mut bytes).unwrap();
        match tls.process_new_packets() {
            Ok(state) => {
                let mut plain = vec![0; state.plaintext_bytes_to_read()];
                tls.reader().read_exact(&mut plain).unwrap();
                said.extend(plain);
                if state.peer_has_closed() {
                    return Some(Tls::Closed);
                }
            }
            Err(error) => return Some(Tls::Untrusted(error.to_string())),
        }
    }
    None
}

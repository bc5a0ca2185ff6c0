//! A guest that speaks TLS, and trusts what it was told to.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use crate::peer::{Peer, Stream};

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
    guest.close(&stream);
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

//! The world outside: servers with certificates of an authority of its own.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ServerConfig, ServerConnection};

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

    /// What a server of TLS for these names is made with.
    pub fn server(&self, names: &[&str]) -> ServerConfig {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &self.issuer).unwrap();
        let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
        ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap()
    }

    /// A server of HTTPS for these names, which answers each request with itself. Tells of each request.
    pub fn https(&self, at: TcpListener, names: &[&str]) -> Receiver<String> {
        let config = Arc::new(self.server(names));
        serve(at, move |socket| {
            let tls = ServerConnection::new(Arc::clone(&config)).unwrap();
            rustls::StreamOwned::new(tls, socket)
        })
    }
}

/// A server that answers each request with itself, in what `wrap` makes of a connection.
pub fn serve<S: Read + Write>(
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

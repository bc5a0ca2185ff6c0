//! A guest, a gateway and a server, on the loopback.

use std::future::Future;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use sandbox_model::{SecretSpec, SecretValue};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::super::Gateway;
use crate::authority::Authority;
use crate::event_log::EventLog;
use crate::secrets::BridgeSecrets;

pub const VALUE: &str = "sk-real-value-0123456789";
pub const HOST: &str = "api.example.com";
pub type TestBody = BoxBody<Bytes, std::io::Error>;

pub fn body(bytes: impl Into<Bytes>) -> TestBody {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed()
}

pub fn secret(change: impl FnOnce(&mut SecretSpec)) -> SecretSpec {
    let mut secret = SecretSpec {
        name: "API_KEY".into(),
        hosts: vec![HOST.parse().unwrap()],
        headers: vec!["authorization".into()],
        query: false,
        body: false,
        fingerprint: String::new(),
    };
    change(&mut secret);
    secret
}

#[derive(Clone, Default)]
pub struct Said(Arc<Mutex<Vec<u8>>>);

impl Said {
    pub fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()).unwrap()
    }
}

impl Write for Said {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

pub struct Case {
    pub gateway: Arc<Gateway>,
    /// Denials and failures, for people.
    pub said: Said,
    trusted: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl Case {
    pub fn new(secret: SecretSpec) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(params.self_signed(&key).unwrap().der().clone()).unwrap();
        let secrets = BridgeSecrets {
            values: [(secret.name.clone(), SecretValue::new(VALUE.into()))].into(),
            secrets: vec![secret],
            authority: Authority::generate("test").unwrap(),
        };
        let trusted = CertificateDer::from_pem_slice(secrets.authority.certificate.as_bytes()).unwrap();
        let said = Said::default();
        let log = EventLog::new(Box::new(said.clone()), None);
        let gateway = Arc::new(Gateway::trusting(&secrets, roots, log).unwrap());
        Self { gateway, said, trusted, issuer: Issuer::new(params, key) }
    }

    pub fn acceptor(&self, protocols: &[&str]) -> TlsAcceptor {
        TlsAcceptor::from(self.server_config(protocols))
    }

    fn server_config(&self, protocols: &[&str]) -> Arc<ServerConfig> {
        let key = KeyPair::generate().unwrap();
        let names = vec![HOST.to_string(), "other.example.com".into()];
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &self.issuer).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let mut config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        Arc::new(config)
    }

    /// A server that speaks these protocols and answers like this; where it is.
    pub async fn server<F, A>(&self, protocols: &[&str], answer: F) -> SocketAddr
    where
        F: Fn(Request<Incoming>) -> A + Clone + Send + 'static,
        A: Future<Output = Response<TestBody>> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (at, tls) = (listener.local_addr().unwrap(), self.acceptor(protocols));
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (tls, answer) = (tls.clone(), answer.clone());
                tokio::spawn(async move {
                    let Ok(stream) = tls.accept(socket).await else { return };
                    let two = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                    let service = hyper::service::service_fn(move |request| {
                        let answer = answer(request);
                        async { Ok::<_, std::convert::Infallible>(answer.await) }
                    });
                    let stream = TokioIo::new(stream);
                    if two {
                        let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                        let _ = builder.serve_connection(stream, service).await;
                    } else {
                        let builder = hyper::server::conn::http1::Builder::new();
                        let _ = builder.serve_connection(stream, service).with_upgrades().await;
                    }
                });
            }
        });
        at
    }

    /// The guest's end of a connection through the gateway to a server that is really at `server`.
    pub async fn connect(&self, server: SocketAddr) -> TcpStream {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let guest = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (inside, _) = listener.accept().await.unwrap();
        let server = TcpStream::connect(server).await.unwrap();
        let gateway = Arc::clone(&self.gateway);
        tokio::spawn(async move {
            let to = "44.55.66.10:443".parse().unwrap();
            let _ = gateway.serve(inside, server, to).await;
        });
        guest
    }

    /// The same inside of TLS, by a guest that trusts its sandbox's authority alone.
    pub async fn tls(&self, server: SocketAddr, name: &str, protocols: &[&str]) -> TlsStream<TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add(self.trusted.clone()).unwrap();
        let mut config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        let name = ServerName::try_from(name.to_string()).unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, self.connect(server).await).await.unwrap()
    }

    /// One request of a guest that speaks this protocol.
    pub async fn ask(
        &self,
        server: SocketAddr,
        protocol: &str,
        request: Request<TestBody>,
    ) -> Response<Incoming> {
        Guest::new(self, server, HOST, protocol).await.ask(request).await
    }
}

/// A guest with a connection.
pub enum Guest {
    One(hyper::client::conn::http1::SendRequest<TestBody>),
    Two(hyper::client::conn::http2::SendRequest<TestBody>),
}

impl Guest {
    pub async fn new(case: &Case, server: SocketAddr, name: &str, protocol: &str) -> Self {
        let stream = case.tls(server, name, &[protocol]).await;
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(protocol.as_bytes()));
        let stream = TokioIo::new(stream);
        if protocol == "h2" {
            let (send, connection) =
                hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
            tokio::spawn(connection);
            return Self::Two(send);
        }
        let (send, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
        tokio::spawn(connection.with_upgrades());
        Self::One(send)
    }

    pub async fn ask(&mut self, request: Request<TestBody>) -> Response<Incoming> {
        match self {
            Self::One(send) => {
                send.ready().await.unwrap();
                send.send_request(request).await.unwrap()
            }
            Self::Two(send) => {
                send.ready().await.unwrap();
                send.send_request(request).await.unwrap()
            }
        }
    }
}

/// A request as each protocol has it.
pub fn get(protocol: &str, target: &str) -> hyper::http::request::Builder {
    if protocol == "h2" {
        Request::builder().uri(format!("https://{HOST}{target}"))
    } else {
        Request::builder().uri(target).header("host", HOST)
    }
}

pub async fn text(response: Response<Incoming>) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

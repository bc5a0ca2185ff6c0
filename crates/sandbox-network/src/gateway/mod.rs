//! Where TLS of a sandbox with secrets ends, and begins anew: values are put into requests, and taken out of answers.
//!
//! ```text
//! guest ══ TLS with a certificate of the sandbox's authority ══► gateway ══ TLS that is verified ══► server
//!            │ the hello names a host                              │ of the two protocols (h2, http/1.1), the one
//!            │                                                     │ that the server chose of the guest's
//!            ▼                                                     ▼
//!          may the stand-in go there? ─► values in their places ─► request ─► answer ─► stars for values
//! ```
//!
//! One connection of the guest is one to the server, so that what the policy has judged is what is reached, and both
//! speak the same protocol. What is no TLS at these ports, or TLS that names no host, passes as it is: no value is
//! put into it.

mod body;
mod exchange;
mod forms;
mod hello;
mod mask;
mod mint;
mod places;
mod refusal;
mod rewrite;
mod speak;
mod table;
mod upgraded;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use sandbox_model::SecretValues;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional, join};
use tokio::net::TcpStream;
use tokio::sync::{Mutex, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::event::{Event, EventKind, Verdict, now};
use crate::event_log::EventLog;
use crate::secrets::{BridgeSecrets, SecretError, ports};
use exchange::{Exchange, Server};
use hello::{First, Hello, Wanted, hello};
use mint::{Fixed, Mint};
use speak::speak;
use table::Table;

const H2: &[u8] = b"h2";
const HTTP_1_1: &[u8] = b"http/1.1";
/// A handshake takes no longer.
const HANDSHAKE: Duration = Duration::from_secs(20);
/// What may be under way from a server, on one stream of HTTP/2 and on all of a connection: it may be far away.
const FROM_SERVERS: (u32, u32) = (512 << 10, 8 << 20);
/// The same of a guest, which is near. Every stream has its share of the connection: what one of them waits for does not
/// keep another from being read.
const FROM_GUESTS: (u32, u32) = (64 << 10, STREAMS * (64 << 10));
/// The most that the fields of one message may take, and streams of one connection.
const FIELDS: u32 = 64 << 10;
const STREAMS: u32 = 64;
/// Connections at once, others wait; and KiB of bodies that are put together at once. A guest must not eat the host's memory.
const CONNECTIONS: usize = 256;
const ROOM: usize = 64 << 10;

/// A server at the other end.
struct Reached {
    server: Server,
    protocol: Option<Vec<u8>>,
    /// Ends with the connection to it.
    ends: Option<JoinHandle<()>>,
}

/// Puts secrets in, for one sandbox.
pub(crate) struct Gateway {
    ports: Vec<u16>,
    /// Of the connections that begin from now on.
    table: RwLock<Arc<Table>>,
    mint: Mint,
    /// Whom this host trusts.
    trust: ClientConfig,
    log: EventLog,
    connections: Arc<Semaphore>,
    room: Arc<Semaphore>,
}

impl Gateway {
    /// Servers prove who they are to whom this host trusts.
    pub fn new(secrets: &BridgeSecrets, log: EventLog) -> Result<Self, SecretError> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        Self::trusting(secrets, roots, log)
    }

    fn trusting(secrets: &BridgeSecrets, roots: RootCertStore, log: EventLog) -> Result<Self, SecretError> {
        Ok(Self {
            ports: ports(&secrets.secrets),
            table: RwLock::new(Arc::new(Table::new(&secrets.secrets, &secrets.values)?)),
            mint: Mint::new(&secrets.authority).map_err(SecretError::Authority)?,
            trust: ClientConfig::builder().with_root_certificates(roots).with_no_client_auth(),
            log,
            connections: Arc::new(Semaphore::new(CONNECTIONS)),
            room: Arc::new(Semaphore::new(ROOM)),
        })
    }

    /// Whether TLS to this port ends here.
    pub fn looks_into(&self, port: u16) -> bool {
        self.ports.contains(&port)
    }

    /// Other values count for connections that begin from now on.
    pub fn change(&self, values: &SecretValues) {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let (changed, problems) = table.with(values);
        *table = Arc::new(changed);
        for problem in problems {
            // It names the secret only.
            tracing::warn!("another value cannot be used: {problem}");
        }
    }

    /// Serves one connection of the guest; `server` leads to whom it is for.
    pub async fn serve(
        &self,
        mut guest: TcpStream,
        mut server: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        to: SocketAddr,
    ) -> io::Result<()> {
        let one = Arc::clone(&self.connections).acquire_owned().await.map_err(io::Error::other)?;
        let Hello { bytes, tls } = match hello(&mut guest, &mut server).await? {
            First::Guest(hello) => hello,
            // It speaks no TLS.
            First::Server(bytes) => {
                guest.write_all(&bytes).await?;
                return copy_bidirectional(&mut guest, &mut server).await.map(drop);
            }
        };
        let Some((name, protocols)) = tls.and_then(|Wanted { name, protocols }| Some((name?, protocols)))
        else {
            server.write_all(&bytes).await?;
            return copy_bidirectional(&mut guest, &mut server).await.map(drop);
        };
        let offered: Vec<Vec<u8>> =
            protocols.iter().filter(|one| [H2, HTTP_1_1].contains(&one.as_slice())).cloned().collect();
        if offered.is_empty() && !protocols.is_empty() {
            return Err(self.failed(&name, to, "it is to speak neither HTTP/1.1 nor HTTP/2 inside of TLS"));
        }
        let table = Arc::clone(&self.table.read().unwrap_or_else(PoisonError::into_inner));
        let Reached { server, protocol, ends } = match self.reach(server, &name, &offered).await {
            Ok(reached) => reached,
            Err(error) => {
                let why = self.failed(&name, to, &format!("the server's TLS fails: {error}")).to_string();
                let protocol = offered.first().cloned();
                Reached { server: Server::None(why), protocol, ends: None }
            }
        };
        let two = protocol.as_deref() == Some(H2);
        let exchange = Exchange {
            host: table.of_host(&name, to.port()),
            name: name.clone(),
            to,
            server,
            log: self.log.clone(),
            room: Arc::clone(&self.room),
            one: Arc::new(one),
        };
        let (read, write) = guest.into_split();
        let guest = join(io::Cursor::new(bytes).chain(read), write);
        let certificate = self.mint.certificate(&name)?;
        let mut config =
            ServerConfig::builder().with_no_client_auth().with_cert_resolver(Arc::new(Fixed(certificate)));
        config.alpn_protocols = protocol.into_iter().collect();
        let guest = TlsAcceptor::from(Arc::new(config)).accept(guest);
        let guest =
            timeout(HANDSHAKE, guest).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        speak(guest, exchange, two, ends).await
    }

    /// The server, and the protocol that it chose.
    async fn reach(
        &self,
        server: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        name: &str,
        offered: &[Vec<u8>],
    ) -> io::Result<Reached> {
        let mut config = self.trust.clone();
        config.alpn_protocols = offered.to_vec();
        let server_name = ServerName::try_from(name.to_string()).map_err(io::Error::other)?;
        let server = TlsConnector::from(Arc::new(config)).connect(server_name, server);
        let server =
            timeout(HANDSHAKE, server).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        let chosen = server.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
        if chosen.as_deref() == Some(H2) {
            let (server, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
                .initial_stream_window_size(FROM_SERVERS.0)
                .initial_connection_window_size(FROM_SERVERS.1)
                .max_header_list_size(FIELDS)
                .handshake(TokioIo::new(server))
                .await
                .map_err(io::Error::other)?;
            let ends = Some(tokio::spawn(async { drop(connection.await) }));
            return Ok(Reached { server: Server::Two(server), protocol: chosen, ends });
        }
        // One that chose nothing speaks the older.
        let chosen = offered.iter().find(|one| one.as_slice() == HTTP_1_1).cloned();
        if chosen.is_none() && !offered.is_empty() {
            return Err(io::Error::other("it does not speak HTTP/2, which the client wants"));
        }
        let (server, connection) = hyper::client::conn::http1::Builder::new()
            .preserve_header_case(true)
            .handshake(TokioIo::new(server))
            .await
            .map_err(io::Error::other)?;
        let ends = Some(tokio::spawn(async { drop(connection.with_upgrades().await) }));
        Ok(Reached { server: Server::One(Mutex::new(server)), protocol: chosen, ends })
    }

    fn failed(&self, name: &str, to: SocketAddr, rule: &str) -> io::Error {
        self.log.report(&Event {
            at: now(),
            verdict: Verdict::Failed,
            kind: EventKind::Tls,
            name: Some(name.into()),
            address: Some(to.to_string()),
            rule: rule.into(),
            opens: None,
        });
        io::Error::other(rule.to_string())
    }
}

#[cfg(test)]
mod tests;

//! The way out, where something stands in it: a proxy of the host's, secrets that are put in, or an engine in
//! another program.
//!
//! ```text
//! engine ─ policy: allowed ─► relay (loopback, with a password) ─┬─ NO_PROXY ──────────► destination
//!    └─ names ─► resolver (loopback) ─► the host's resolvers      ├─ CONNECT, SOCKS ─► proxy ─► destination
//!                                                                 └─ TLS, with secrets: the gateway in between
//!                     └ unknown there: a placeholder, which the relay turns into the name again
//! ```
//!
//! The engine knows one proxy by its address, and gives it addresses. So it gets one of ours, in this very
//! process, which knows under which name the guest found an address, and what goes out directly. The policy has
//! decided before the relay is asked.

mod asking;
mod datagrams;
mod dial;
mod http;
mod names;
mod plain;
mod relay;
mod resolver;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;

use microsandbox_network::config::NetworkConfig;
use microsandbox_network::dns::Nameserver;
use microsandbox_network::proxy::{ResolvedOutboundProxy, ResolvedSocks5Credentials};
use sandbox_model::{Proxies, SecretValue};
use tokio::runtime::Handle;

use crate::compile::Compiled;
use crate::event_log::EventLog;
use crate::floor::local_addresses;
use crate::gateway::Gateway;
use asking::Asking;
use dial::Dialer;
use names::Names;
pub(crate) use names::{PLACEHOLDERS, is_placeholder};
use relay::Relay;
use resolver::Resolver;

/// What the relay and the resolver have in common.
#[derive(Clone)]
pub(crate) struct Upstream {
    proxies: Option<Arc<Proxies>>,
    gateway: Option<Arc<Gateway>>,
    policy: Arc<Compiled>,
    names: Arc<Names>,
    asking: Arc<Asking>,
    log: EventLog,
    /// The engine is in another program: nobody else here sees what passes, and which names are asked for.
    alone: bool,
}

/// Who may use a relay: others on this host, and a guest that may reach the host's loopback, must not.
#[derive(Debug, Clone)]
pub(crate) struct Credentials {
    pub user: String,
    pub password: SecretValue,
}

impl Credentials {
    fn new() -> Self {
        Self { user: word(), password: SecretValue::new(word()) }
    }
}

impl Upstream {
    pub fn new(
        proxies: Option<Arc<Proxies>>,
        gateway: Option<Arc<Gateway>>,
        policy: Arc<Compiled>,
        log: EventLog,
        alone: bool,
    ) -> Self {
        let asking = Arc::new(Asking { policy: Arc::clone(&policy), own: local_addresses() });
        Self { proxies, gateway, policy, names: Arc::default(), asking, log, alone }
    }

    /// For an engine in this process: `engine` is told of the resolver, where one is needed, and the relay is
    /// returned for it.
    pub fn beside(self, engine: &mut NetworkConfig, threads: &Handle) -> io::Result<ResolvedOutboundProxy> {
        let resolves = self.proxies.is_some();
        let credentials = Credentials::new();
        let (user, password) = (credentials.user.clone(), credentials.password.reveal().to_string());
        let servers = if resolves { std::mem::take(&mut engine.dns.nameservers) } else { Vec::new() };
        let address = self.relay(listener(ANY)?, credentials, threads)?;
        if resolves {
            engine.dns.nameservers = vec![self.resolver(both(ANY)?, servers, threads)?.into()];
        }
        let credentials = Some(ResolvedSocks5Credentials::new(user, password));
        Ok(ResolvedOutboundProxy::Socks5 { address, credentials })
    }

    /// Starts the relay; where it is.
    pub fn relay(
        &self,
        listener: TcpListener,
        credentials: Credentials,
        threads: &Handle,
    ) -> io::Result<SocketAddr> {
        let _inside = threads.enter();
        let address = listener.local_addr()?;
        let relay = Relay { way: self.clone(), dialer: Dialer::new(self.proxies.as_deref()), credentials };
        threads.spawn(relay::serve(tokio::net::TcpListener::from_std(listener)?, Arc::new(relay)));
        Ok(address)
    }

    /// Starts the resolver; where it is. `servers` are asked, or the host's own where there are none.
    pub fn resolver(
        &self,
        (udp, tcp): (UdpSocket, TcpListener),
        servers: Vec<Nameserver>,
        threads: &Handle,
    ) -> io::Result<SocketAddr> {
        let _inside = threads.enter();
        let address = udp.local_addr()?;
        let resolver = Arc::new(Resolver { way: self.clone(), servers: resolver::Servers::new(servers) });
        threads.spawn(resolver::serve_udp(tokio::net::UdpSocket::from_std(udp)?, Arc::clone(&resolver)));
        threads.spawn(resolver::serve_tcp(tokio::net::TcpListener::from_std(tcp)?, resolver));
        Ok(address)
    }
}

/// Any port of the loopback.
pub(crate) const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

pub(crate) fn listener(at: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(at)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// A port that is free for both.
pub(crate) fn both(at: SocketAddr) -> io::Result<(UdpSocket, TcpListener)> {
    let mut tries = 0;
    loop {
        let tcp = listener(at)?;
        match UdpSocket::bind(tcp.local_addr()?) {
            Ok(udp) => {
                udp.set_nonblocking(true)?;
                return Ok((udp, tcp));
            }
            Err(error) if tries == 20 || at.port() != 0 => return Err(error),
            Err(_) => tries += 1,
        }
    }
}

fn word() -> String {
    format!("{:032x}", rand::random::<u128>())
}

//! The way out of a host that reaches the world through a proxy.
//!
//! ```text
//! engine ─ policy: allowed ─► relay (loopback, with a password) ─┬─ NO_PROXY ──────────► destination
//!    └─ names ─► resolver (loopback) ─► the host's resolvers      └─ CONNECT, SOCKS ─► proxy ─► destination
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

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;

use microsandbox_network::config::NetworkConfig;
use microsandbox_network::proxy::{ResolvedOutboundProxy, ResolvedSocks5Credentials};
use sandbox_model::Proxies;
use tokio::runtime::Handle;

use crate::compile::Compiled;
use crate::event_log::EventLog;
use crate::floor::local_addresses;
use asking::Asking;
use dial::Dialer;
use names::Names;
pub(crate) use names::{PLACEHOLDERS, is_placeholder};
use relay::Relay;
use resolver::Resolver;

/// Starts the relay and the resolver; `engine` is told of the resolver, and the relay is returned for it.
pub(crate) fn start(
    proxies: &Arc<Proxies>,
    policy: &Arc<Compiled>,
    log: EventLog,
    engine: &mut NetworkConfig,
    threads: &Handle,
) -> std::io::Result<ResolvedOutboundProxy> {
    let names = Arc::new(Names::default());
    let asking = Arc::new(Asking { policy: Arc::clone(policy), own: local_addresses() });
    let _inside = threads.enter();

    let listener = listener(0)?;
    let address = listener.local_addr()?;
    // Others on this host, and a guest that may reach the host's loopback, must not leave through the proxy.
    let (user, password) = (word(), word());
    let relay = Relay {
        proxies: Arc::clone(proxies),
        policy: Arc::clone(policy),
        names: Arc::clone(&names),
        asking: Arc::clone(&asking),
        log: log.clone(),
        dialer: Dialer::new(proxies),
        user: user.clone(),
        password: password.clone(),
    };
    threads.spawn(relay::serve(tokio::net::TcpListener::from_std(listener)?, Arc::new(relay)));

    let (udp, tcp) = both()?;
    let at = udp.local_addr()?;
    let resolver = Arc::new(Resolver {
        proxies: Arc::clone(proxies),
        policy: Arc::clone(policy),
        names,
        asking,
        log,
        servers: resolver::Servers::new(std::mem::take(&mut engine.dns.nameservers)),
    });
    threads.spawn(resolver::serve_udp(tokio::net::UdpSocket::from_std(udp)?, Arc::clone(&resolver)));
    threads.spawn(resolver::serve_tcp(tokio::net::TcpListener::from_std(tcp)?, resolver));
    engine.dns.nameservers = vec![at.into()];

    let credentials = Some(ResolvedSocks5Credentials::new(user, password));
    Ok(ResolvedOutboundProxy::Socks5 { address, credentials })
}

fn listener(port: u16) -> std::io::Result<TcpListener> {
    let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// A port that is free for both.
fn both() -> std::io::Result<(UdpSocket, TcpListener)> {
    let mut tries = 0;
    loop {
        let tcp = listener(0)?;
        match UdpSocket::bind(tcp.local_addr()?) {
            Ok(udp) => {
                udp.set_nonblocking(true)?;
                return Ok((udp, tcp));
            }
            Err(error) if tries == 20 => return Err(error),
            Err(_) => tries += 1,
        }
    }
}

fn word() -> String {
    format!("{:032x}", rand::random::<u128>())
}

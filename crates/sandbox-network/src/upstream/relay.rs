//! The proxy that the engine knows: SOCKS 5 on the loopback, for this process alone.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use microsandbox_network::policy::{Action, Protocol};
use microsandbox_network::shared::ResolvedHostnameFamily;
use sandbox_model::{HOST_NAMES, ProxyScheme, ProxyUrl};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::datagrams::Association;
use super::dial::{DialError, Dialer, Stream, Wanted};
use super::names::Known;
use super::{ANY, Credentials, Upstream, plain};
use crate::event::{Event, EventKind, Verdict, now};

const VERSION: u8 = 5;
const BY_PASSWORD: u8 = 2;
const CONNECT: u8 = 1;
const ASSOCIATE: u8 = 3;
/// A name is known to the policy for as long as a question to it takes.
const BRIEFLY: Duration = Duration::from_mins(1);

/// The engine says at once who it is and where to; others have no business here.
const ASKS: Duration = Duration::from_secs(10);

/// What the relay answers.
#[derive(Debug, Clone, Copy)]
enum Answer {
    Open = 0,
    Failed = 1,
    Denied = 2,
    NoCommand = 7,
}

pub(super) struct Relay {
    pub way: Upstream,
    pub dialer: Dialer,
    pub credentials: Credentials,
}

pub(super) async fn serve(listener: TcpListener, relay: Arc<Relay>) {
    loop {
        // Out of descriptors: they come back when connections end.
        let Ok((socket, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let relay = Arc::clone(&relay);
        tokio::spawn(async move {
            // The engine tells the guest of its end; why a connection could not be made is in the log.
            let _ = relay.handle(socket).await;
        });
    }
}

impl Relay {
    async fn handle(&self, mut engine: TcpStream) -> io::Result<()> {
        let _ = engine.set_nodelay(true);
        let asked = timeout(ASKS, self.asked(&mut engine)).await.map_err(io::Error::other)??;
        let Some((command, to)) = asked else { return Ok(()) };
        if command == ASSOCIATE {
            let association = Association::new().await?;
            let address = association.address()?;
            answer_at(&mut engine, Answer::Open, address).await?;
            let direct = |to| {
                let direct = self.is_direct(to);
                if self.way.alone {
                    self.tell(to, EventKind::Udp, direct);
                }
                direct
            };
            return association.serve(&mut engine, direct).await;
        }
        let opened = self.open(to).await;
        if self.way.alone {
            self.tell(to, EventKind::Tcp, opened.is_ok());
        }
        match opened {
            Ok(Way::Stream(mut outside)) => {
                answer(&mut engine, Answer::Open).await?;
                if let Some(gateway) =
                    self.way.gateway.as_ref().filter(|gateway| gateway.looks_into(to.port()))
                {
                    return gateway.serve(engine, outside, to).await;
                }
                copy_bidirectional(&mut engine, &mut outside).await.map(drop)
            }
            Ok(Way::Plain { proxy, to: host, name }) => {
                // What the guest says first decides how the proxy is asked.
                answer(&mut engine, Answer::Open).await?;
                let outcome = plain::serve(&self.dialer, &mut engine, &proxy, &host).await;
                outcome.map_err(|problem| self.failed(name, to, &proxy, &problem))
            }
            Err(refusal) => answer(&mut engine, refusal).await,
        }
    }

    /// The destination that the engine asks for, once it has proven who it is.
    async fn asked(&self, engine: &mut TcpStream) -> io::Result<Option<(u8, SocketAddr)>> {
        let (version, count) = (engine.read_u8().await?, engine.read_u8().await?);
        let mut methods = vec![0; count.into()];
        engine.read_exact(&mut methods).await?;
        if version != VERSION || !methods.contains(&BY_PASSWORD) {
            engine.write_all(&[VERSION, 0xff]).await?;
            return Ok(None);
        }
        engine.write_all(&[VERSION, BY_PASSWORD]).await?;
        engine.read_u8().await?;
        let (user, password) = (text(engine).await?, text(engine).await?);
        let known = user == self.credentials.user.as_bytes()
            && password == self.credentials.password.reveal().as_bytes();
        engine.write_all(&[1, u8::from(!known)]).await?;
        if !known {
            return Ok(None);
        }
        let mut request = [0; 4];
        engine.read_exact(&mut request).await?;
        let ip: IpAddr = match request[3] {
            1 => Ipv4Addr::from(engine.read_u32().await?).into(),
            4 => Ipv6Addr::from(engine.read_u128().await?).into(),
            _ => return Ok(None),
        };
        let to = SocketAddr::new(ip.to_canonical(), engine.read_u16().await?);
        if !matches!(request[1], CONNECT | ASSOCIATE) {
            answer(engine, Answer::NoCommand).await?;
            return Ok(None);
        }
        Ok(Some((request[1], to)))
    }

    /// Whether what goes to an address takes no proxy, under a name that it has.
    fn is_direct(&self, to: SocketAddr) -> bool {
        let Some(proxies) = &self.way.proxies else { return true };
        let Known::Names(names) = self.way.names.at(to.ip()) else { return false };
        let direct = |name: Option<&str>| proxies.to(name, Some(to.ip()), to.port()).is_none();
        direct(None) || names.iter().any(|name| direct(Some(name)))
    }

    async fn open(&self, to: SocketAddr) -> Result<Way, Answer> {
        let Some(proxies) = &self.way.proxies else { return direct(to).await };
        let (name, address) = match self.way.names.at(to.ip()) {
            // The guest may have asked for the name behind the engine's back, or long ago.
            Known::Placeholder(name) => {
                let name = name.filter(|name| self.allows(name, to)).ok_or(Answer::Denied)?;
                (Some(name), None)
            }
            Known::Names(names) => (names.into_iter().find(|name| self.allows(name, to)), Some(to)),
        };
        let route = proxies.to(name.as_deref(), address.map(|address| address.ip()), to.port());
        let Some(proxy) = route else {
            // Without an address it is direct at this port alone, and this host does not know the name.
            let address = address.ok_or(Answer::Failed)?;
            return direct(address).await;
        };
        let asked = name.as_deref().filter(|name| self.way.asking.by_name(proxy, name));
        if address.is_none() && asked.is_none() {
            return Err(Answer::Denied);
        }
        let wanted = Wanted { name: asked, address, port: to.port() };
        // Asked for an address, a proxy would say it to the server in the place of the name.
        let whole = asked.is_some() || name.is_none();
        if whole && to.port() == plain::PORT && matches!(proxy.scheme, ProxyScheme::Http | ProxyScheme::Https)
        {
            let host = wanted.authority();
            return Ok(Way::Plain { proxy: proxy.clone(), to: host, name });
        }
        match self.dialer.tunnel(proxy, wanted).await {
            Ok(stream) => Ok(Way::Stream(stream)),
            Err(problem) => {
                self.failed(name, to, proxy, &problem);
                Err(Answer::Failed)
            }
        }
    }

    /// Whether the policy allows the destination under this very name: several names may have one address.
    fn allows(&self, name: &str, to: SocketAddr) -> bool {
        let state = self.way.policy.state();
        let family = if to.is_ipv4() { ResolvedHostnameFamily::Ipv4 } else { ResolvedHostnameFamily::Ipv6 };
        state.cache_resolved_hostname(name, family, [to.ip()], BRIEFLY);
        let named = self.way.policy.decide_name(name).is_none_or(|decision| decision.action == Action::Allow);
        named && self.way.policy.decide(to, Protocol::Tcp, &state, Some(name)).action == Action::Allow
    }

    /// What the engine let out, where nobody else here saw it.
    fn tell(&self, to: SocketAddr, kind: EventKind, open: bool) {
        let state = self.way.policy.state();
        let host = to.ip().is_loopback();
        let seen = if host { SocketAddr::new(self.way.policy.a_gateway(), to.port()) } else { to };
        let name = match self.way.names.at(to.ip()) {
            _ if host => Some(HOST_NAMES[0].to_string()),
            Known::Placeholder(name) => name,
            Known::Names(names) => {
                let allowed = names.iter().find(|name| self.allows(name, to)).cloned();
                allowed.or_else(|| names.into_iter().next())
            }
        };
        if let Some(name) = &name {
            let family =
                if to.is_ipv4() { ResolvedHostnameFamily::Ipv4 } else { ResolvedHostnameFamily::Ipv6 };
            state.cache_resolved_hostname(name, family, [to.ip()], BRIEFLY);
        }
        let udp = kind == EventKind::Udp;
        let protocol = if udp { Protocol::Udp } else { Protocol::Tcp };
        let decision = self.way.policy.decide(seen, protocol, &state, name.as_deref());
        let proxied =
            self.way.proxies.as_ref().is_some_and(|proxies| {
                !host && proxies.to(name.as_deref(), Some(to.ip()), to.port()).is_some()
            });
        let (verdict, rule) = match (open, proxied) {
            (true, false) => (Verdict::Allowed, decision.rule),
            (true, true) => (Verdict::Allowed, format!("{}, through the proxy", decision.rule)),
            (false, _) if udp => {
                (Verdict::Failed, format!("{}, but the proxy carries no datagrams", decision.rule))
            }
            // Why was told.
            (false, true) => return,
            (false, false) => {
                (Verdict::Failed, format!("{}, but nobody takes the connection", decision.rule))
            }
        };
        let address = Some(to.to_string());
        self.way.log.report(&Event { at: now(), verdict, kind, name, address, rule, opens: None });
    }

    fn failed(
        &self,
        name: Option<String>,
        to: SocketAddr,
        proxy: &ProxyUrl,
        problem: &DialError,
    ) -> io::Error {
        let rule = format!("the proxy {proxy} {problem}");
        self.way.log.report(&Event {
            at: now(),
            verdict: Verdict::Failed,
            kind: EventKind::Tcp,
            name,
            address: Some(to.to_string()),
            rule: rule.clone(),
            opens: None,
        });
        io::Error::other(rule)
    }
}

async fn direct(to: SocketAddr) -> Result<Way, Answer> {
    let stream = TcpStream::connect(to).await.map_err(|_| Answer::Failed)?;
    let _ = stream.set_nodelay(true);
    Ok(Way::Stream(Box::new(stream)))
}

/// How a connection goes on.
enum Way {
    Stream(Box<dyn Stream>),
    /// Plain HTTP through an HTTP proxy, which many of them take only as such.
    Plain {
        proxy: ProxyUrl,
        to: String,
        name: Option<String>,
    },
}

async fn text(engine: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut text = vec![0; engine.read_u8().await?.into()];
    engine.read_exact(&mut text).await?;
    Ok(text)
}

async fn answer(engine: &mut TcpStream, answer: Answer) -> io::Result<()> {
    answer_at(engine, answer, ANY).await
}

/// With an address of this host's loopback.
async fn answer_at(engine: &mut TcpStream, answer: Answer, at: SocketAddr) -> io::Result<()> {
    let IpAddr::V4(ip) = at.ip() else { return Err(io::ErrorKind::AddrNotAvailable.into()) };
    let ([a, b, c, d], [high, low]) = (ip.octets(), at.port().to_be_bytes());
    engine.write_all(&[VERSION, answer as u8, 0, 1, a, b, c, d, high, low]).await
}

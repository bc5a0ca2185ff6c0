//! Names of a guest whose host may not know them: the proxy does.
//!
//! The host's own resolvers are asked first, so that rules about addresses hold wherever an address is known.
//! A name that they do not know gets a placeholder, if it may be one that a proxy knows.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::rdata::A;
use hickory_proto::rr::{RData, Record, RecordType};
use microsandbox_network::dns::Nameserver;
use microsandbox_network::policy::Action;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::OnceCell;
use tokio::time::timeout;

use super::Upstream;
use super::names::is_placeholder;
use crate::compile::Decision;
use crate::event::{Event, EventKind, Verdict, now};

/// Where the host's resolvers stand if the settings name none.
const RESOLV_CONF: &str = "/etc/resolv.conf";
/// A resolver answers in this time, or is left alone for a while: behind a proxy, often nobody answers, and each
/// of the guest's questions would wait for that.
const PATIENCE: Duration = Duration::from_millis(1500);
const ALONE: Duration = Duration::from_secs(20);
/// Where no proxy knows better, a slow name is waited for.
const LONG_PATIENCE: Duration = Duration::from_secs(5);
/// Seconds that a guest may remember a placeholder.
const TTL: u32 = 300;
/// What names below these mean depends on whom one asks; the proxy would take them for its own.
const LOCAL: [&str; 8] = ["localhost", "local", "internal", "intranet", "arpa", "lan", "home", "corp"];

pub(super) struct Resolver {
    pub way: Upstream,
    pub servers: Servers,
}

/// The host's resolvers, or those of the settings.
pub(super) struct Servers {
    configured: Vec<Nameserver>,
    addresses: OnceCell<Vec<SocketAddr>>,
    silent: Mutex<Vec<(SocketAddr, Instant)>>,
}

pub(super) async fn serve_udp(socket: UdpSocket, resolver: Arc<Resolver>) {
    let socket = Arc::new(socket);
    let mut query = vec![0; 4096];
    loop {
        // An error is one of an answer that its asker did not wait for.
        let Ok((count, from)) = socket.recv_from(&mut query).await else { continue };
        let (query, socket, resolver) = (query[..count].to_vec(), Arc::clone(&socket), Arc::clone(&resolver));
        tokio::spawn(async move {
            if let Some(answer) = resolver.answer(&query, false).await {
                let _ = socket.send_to(&answer, from).await;
            }
        });
    }
}

pub(super) async fn serve_tcp(listener: TcpListener, resolver: Arc<Resolver>) {
    loop {
        let Ok((mut stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let resolver = Arc::clone(&resolver);
        tokio::spawn(async move {
            while let Ok(query) = read_framed(&mut stream).await {
                let Some(answer) = resolver.answer(&query, true).await else { return };
                if write_framed(&mut stream, &answer).await.is_err() {
                    return;
                }
            }
        });
    }
}

async fn read_framed(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut message = vec![0; usize::from(stream.read_u16().await?)];
    stream.read_exact(&mut message).await?;
    Ok(message)
}

async fn write_framed(stream: &mut TcpStream, message: &[u8]) -> std::io::Result<()> {
    let length = u16::try_from(message.len()).map_err(std::io::Error::other)?;
    let mut framed = length.to_be_bytes().to_vec();
    framed.extend_from_slice(message);
    stream.write_all(&framed).await
}

impl Resolver {
    /// `None` for what is no query.
    async fn answer(&self, raw: &[u8], tcp: bool) -> Option<Vec<u8>> {
        let query = Message::from_vec(raw).ok()?;
        let question = query.queries.first()?;
        let name = question.name().to_ascii().trim_end_matches('.').to_ascii_lowercase();
        // An engine in this process has asked the policy already.
        let allowed = if self.way.alone {
            // One question is what is judged, and what is passed on.
            if query.queries.len() != 1 {
                return reply(&query, ResponseCode::FormErr, None);
            }
            let decision = self.way.policy.decide_name(&name).unwrap_or_else(no_name);
            if decision.action == Action::Deny {
                self.tell(&name, Verdict::Denied, decision.rule, decision.opens);
                return reply(&query, ResponseCode::NXDomain, None);
            }
            Some(decision)
        } else {
            None
        };
        let mut found = self.servers.ask(raw, tcp, self.way.proxies.is_some()).await;
        if let Some(decision) = allowed {
            self.tell_found(&name, found.as_ref().map(|(_, message)| message), &decision.rule);
        }
        if let Some((answer, message)) = &found
            && message.metadata.response_code == ResponseCode::NoError
        {
            let addresses: Vec<IpAddr> = message.answers.iter().filter_map(address).collect();
            // A resolver that hands out placeholders of its own from this very block knows no address.
            if !addresses.iter().any(|address| is_placeholder(*address)) {
                self.way.names.found(&name, addresses);
                return Some(answer.clone());
            }
            found = None;
        }
        if self.proxy_knows(&name) {
            let placeholder =
                (question.query_type() == RecordType::A).then(|| self.way.names.placeholder(&name));
            return reply(&query, ResponseCode::NoError, placeholder);
        }
        found.map(|(answer, _)| answer).or_else(|| reply(&query, ResponseCode::ServFail, None))
    }

    fn tell(&self, name: &str, verdict: Verdict, rule: String, opens: Option<String>) {
        let (kind, name) = (EventKind::Name, Some(name.to_string()));
        self.way.log.report(&Event { at: now(), verdict, kind, name, address: None, rule, opens });
    }

    /// A name that is allowed.
    fn tell_found(&self, name: &str, answer: Option<&Message>, rule: &str) {
        match answer.map(|answer| answer.metadata.response_code) {
            Some(ResponseCode::NoError) => {}
            _ if self.way.proxies.is_some() => {}
            Some(ResponseCode::NXDomain) => {
                self.tell(name, Verdict::Failed, format!("{rule}, but no such name is known"), None);
            }
            _ => self.tell(
                name,
                Verdict::Failed,
                format!("{rule}, but this host's resolvers do not tell"),
                None,
            ),
        }
    }

    fn proxy_knows(&self, name: &str) -> bool {
        let Some(proxies) = &self.way.proxies else { return false };
        // Without a port: what is direct at one port only may be asked for at others.
        let direct = proxies.direct.has(Some(name), None, 0);
        if direct || !may_be_foreign(name, || self.way.policy.lists_name(name)) {
            return false;
        }
        let asks = proxies.each().iter().all(|proxy| self.way.asking.by_name(proxy, name));
        if !asks {
            self.way.log.report(&Event {
                at: now(),
                verdict: Verdict::Denied,
                kind: EventKind::Name,
                name: Some(name.into()),
                address: None,
                rule: "this host does not know it, and a proxy on this host is asked only for names in egress-allow".into(),
                opens: Some(name.into()),
            });
        }
        asks
    }
}

/// What no host is called is in no entry, and could carry anything to whoever answers for what it is below.
fn no_name() -> Decision {
    Decision { action: Action::Deny, rule: "it is not the name of a host".into(), opens: None }
}

/// Whether a proxy may be asked for a name that this host does not know. `listed`: the user wrote it down.
fn may_be_foreign(name: &str, listed: impl FnOnce() -> bool) -> bool {
    let last = name.rsplit('.').next().unwrap_or_default();
    // Every spelling of an address ends in a number: it would go around the rules for addresses.
    let number = last.starts_with("0x") || last.bytes().all(|byte| byte.is_ascii_digit());
    !number && (listed() || (name.contains('.') && !LOCAL.contains(&last)))
}

fn address(record: &Record) -> Option<IpAddr> {
    match record.data {
        RData::A(ref address) => Some(address.0.into()),
        RData::AAAA(ref address) => Some(address.0.into()),
        _ => None,
    }
}

fn reply(query: &Message, code: ResponseCode, address: Option<Ipv4Addr>) -> Option<Vec<u8>> {
    let question = query.queries.first()?;
    let mut reply = Message::response(query.metadata.id, query.metadata.op_code);
    reply.metadata.recursion_desired = query.metadata.recursion_desired;
    reply.metadata.recursion_available = true;
    reply.metadata.response_code = code;
    reply.add_query(question.clone());
    if let Some(address) = address {
        reply.add_answer(Record::from_rdata(question.name().clone(), TTL, RData::A(A(address))));
    }
    reply.to_vec().ok()
}

impl Servers {
    pub fn new(configured: Vec<Nameserver>) -> Self {
        Self { configured, addresses: OnceCell::new(), silent: Mutex::default() }
    }

    async fn addresses(&self) -> &[SocketAddr] {
        self.addresses
            .get_or_init(|| async {
                let mut addresses = Vec::new();
                for server in &self.configured {
                    addresses.extend(server.resolve().await.ok());
                }
                if self.configured.is_empty() {
                    let text = tokio::fs::read(RESOLV_CONF).await.unwrap_or_default();
                    let servers = resolv_conf::Config::parse(text).map(|found| found.nameservers);
                    let servers = servers.unwrap_or_default().into_iter();
                    addresses.extend(servers.map(|server| SocketAddr::new(server.into(), 53)));
                }
                addresses
            })
            .await
    }

    /// The first answer of one of them. `impatient`: whoever does not answer once is left alone for a while.
    async fn ask(&self, query: &[u8], tcp: bool, impatient: bool) -> Option<(Vec<u8>, Message)> {
        for server in self.addresses().await {
            if impatient && self.is_silent(*server) {
                continue;
            }
            let asked =
                async { if tcp { ask_tcp(*server, query).await } else { ask_udp(*server, query).await } };
            let patience = if impatient { PATIENCE } else { LONG_PATIENCE };
            match timeout(patience, asked).await {
                Ok(Ok(answer)) => {
                    if let Ok(message) = Message::from_vec(&answer) {
                        return Some((answer, message));
                    }
                }
                Ok(Err(_)) | Err(_) if impatient => self.silence(*server),
                Ok(Err(_)) | Err(_) => {}
            }
        }
        None
    }

    fn is_silent(&self, server: SocketAddr) -> bool {
        let mut silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        silent.retain(|(_, since)| since.elapsed() < ALONE);
        silent.iter().any(|(known, _)| *known == server)
    }

    fn silence(&self, server: SocketAddr) {
        self.silent.lock().unwrap_or_else(PoisonError::into_inner).push((server, Instant::now()));
    }
}

async fn ask_udp(server: SocketAddr, query: &[u8]) -> std::io::Result<Vec<u8>> {
    let any: SocketAddr =
        if server.is_ipv4() { (Ipv4Addr::UNSPECIFIED, 0).into() } else { ([0; 16], 0).into() };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(server).await?;
    socket.send(query).await?;
    let mut answer = vec![0; 4096];
    loop {
        let count = socket.recv(&mut answer).await?;
        if answer.get(..2) == query.get(..2) && count >= 12 {
            answer.truncate(count);
            return Ok(answer);
        }
    }
}

async fn ask_tcp(server: SocketAddr, query: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(server).await?;
    write_framed(&mut stream, query).await?;
    read_framed(&mut stream).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_mean_the_same_everywhere_are_the_proxys() {
        let foreign = |name| may_be_foreign(name, || false);
        for name in ["api.example.com", "x.onion", "127.0.0.1.nip.io"] {
            assert!(foreign(name), "{name}");
        }
        for name in [
            "127.0.0.1",
            "10.1",
            "2130706433",
            "0x7f000001",
            "x.0x7f",
            "localhost",
            "a.localhost",
            "proxy",
            "metadata.google.internal",
            "printer.local",
            "1.0.0.127.in-addr.arpa",
        ] {
            assert!(!foreign(name), "{name}");
        }
        for name in ["proxy", "metadata.google.internal"] {
            assert!(may_be_foreign(name, || true), "{name}: the user wrote it down");
        }
        assert!(!may_be_foreign("127.0.0.1", || true));
    }
}

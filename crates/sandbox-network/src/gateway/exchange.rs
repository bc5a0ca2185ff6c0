//! One request and its answer.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body, Incoming};
use hyper::client::conn::{http1, http2};
use hyper::header::{
    ACCEPT_ENCODING, ALT_SVC, CONTENT_ENCODING, CONTENT_LENGTH, EXPECT, HOST, HeaderMap, HeaderName,
    HeaderValue, SEC_WEBSOCKET_EXTENSIONS, TE, TRANSFER_ENCODING, UPGRADE,
};
use hyper::http::request;
use hyper::http::uri::Authority;
use hyper::upgrade::OnUpgrade;
use hyper::{Method, Request, Response, StatusCode};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};

use super::body::{AnyBody, any, plain, rewrite_fields, rewritten};
use super::places::{Refusal, fill};
use super::refusal::refusal;
use super::table::HostTable;
use super::upgraded;
use crate::event::{Event, EventKind, Verdict, now};
use crate::event_log::EventLog;

/// A body of a known length up to this is put together before it leaves, with the length that it then has; a longer
/// one leaves piece by piece, without.
const WHOLE: u64 = 8 << 20;
/// In how many ways an answer may be packed at once.
const LAYERS: usize = 2;

/// The server's end of a guest's connection.
pub(super) enum Server {
    One(Mutex<http1::SendRequest<AnyBody>>),
    Two(http2::SendRequest<AnyBody>),
    /// Why there is none.
    None(String),
}

/// What all requests of one connection have in common.
pub(super) struct Exchange {
    pub host: HostTable,
    /// The name in the client's hello.
    pub name: String,
    pub to: SocketAddr,
    pub server: Server,
    pub log: EventLog,
    /// KiB of bodies that may be put together.
    pub room: Arc<Semaphore>,
    /// That it is one of not too many connections.
    pub one: Arc<OwnedSemaphorePermit>,
}

impl Exchange {
    /// An error is one of the connection, which ends with it.
    pub async fn answer(&self, mut request: Request<Incoming>) -> io::Result<Response<AnyBody>> {
        if let Server::None(why) = &self.server {
            return Ok(refusal(StatusCode::BAD_GATEWAY, "upstream_failed", why));
        }
        let guest = hyper::upgrade::on(&mut request);
        let (mut head, body) = request.into_parts();
        if let Some(refused) = self.refused(&mut head) {
            return Ok(refused);
        }
        let method = head.method.clone();
        if self.host.masks.is_some() {
            ask_plainly(&mut head.headers);
        }
        let upgrades = head.headers.contains_key(UPGRADE);
        head.headers.remove(EXPECT);
        let body = self.filled(&mut head.headers, any(body)).await?;
        let response = self.send(Request::from_parts(head, body)).await?;
        if upgrades && response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return Ok(self.upgrade(guest, response));
        }
        Ok(self.masked(&method, response))
    }

    fn refused(&self, head: &mut request::Parts) -> Option<Response<AnyBody>> {
        if head.method == Method::CONNECT {
            let message = "this is no proxy";
            return Some(refusal(StatusCode::METHOD_NOT_ALLOWED, "network_policy_denied", message));
        }
        if !names_host(head, &self.name, self.to.port()) {
            self.tell(
                Verdict::Denied,
                EventKind::Tls,
                "a request names another host than its connection".into(),
            );
            let message = format!("the connection is to {}, and the request is for another host", self.name);
            return Some(refusal(StatusCode::MISDIRECTED_REQUEST, "network_policy_denied", &message));
        }
        if let Err(refused) = fill(head, &self.host) {
            let message = match refused {
                Refusal::Kept { secret } => {
                    let rule = format!("the secret {secret} may not go there");
                    self.tell(Verdict::Denied, EventKind::Secret, rule);
                    format!("the secret {secret} may not go to {}", self.name)
                }
                Refusal::Malformed => "a secret's value makes this request no request any more".into(),
            };
            return Some(refusal(StatusCode::FORBIDDEN, "secret_policy_denied", &message));
        }
        if !matches!(self.server, Server::Two(_))
            && let Some(target) = head.uri.path_and_query().cloned()
        {
            head.uri = target.into();
        }
        None
    }

    /// The request's body with the values in it, where they belong there.
    async fn filled(&self, fields: &mut HeaderMap, body: AnyBody) -> io::Result<AnyBody> {
        let is_json = fields.get(hyper::header::CONTENT_TYPE).is_some_and(|kind| {
            kind.to_str()
                .is_ok_and(|kind| kind.split(';').next().is_some_and(|kind| kind.trim().ends_with("json")))
        });
        let words = if is_json { &self.host.json } else { &self.host.body };
        let Some(words) = words.as_ref().filter(|_| !fields.contains_key(CONTENT_ENCODING)) else {
            return Ok(body);
        };
        if body.is_end_stream() {
            return Ok(body);
        }
        let body = rewritten(body, words);
        let announced = fields.remove(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        if announced.is_none_or(|length: u64| length > WHOLE) {
            return Ok(body);
        }
        // What values add to it is as little as it is, or a few values.
        let most = 2 * announced.unwrap_or_default() + (64 << 10);
        let kib = u32::try_from(most >> 10).map_err(io::Error::other)?;
        // Until it has left: a guest cannot have its host keep more than that at once.
        let room = Arc::clone(&self.room).acquire_many_owned(kib).await.map_err(io::Error::other)?;
        let limit = usize::try_from(most).map_err(io::Error::other)?;
        let whole = Limited::new(body, limit).collect().await.map_err(io::Error::other)?.to_bytes();
        fields.insert(CONTENT_LENGTH, whole.len().into());
        let held = Full::new(whole).map_frame(move |frame| {
            let _room = &room;
            frame
        });
        Ok(held.map_err(|never| -> io::Error { match never {} }).boxed())
    }

    async fn send(&self, request: Request<AnyBody>) -> io::Result<Response<Incoming>> {
        let outcome = match &self.server {
            Server::One(server) => {
                let mut server = server.lock().await;
                server.ready().await.map_err(io::Error::other)?;
                server.send_request(request).await
            }
            Server::Two(server) => {
                let mut server = server.clone();
                server.ready().await.map_err(io::Error::other)?;
                server.send_request(request).await
            }
            Server::None(why) => return Err(io::Error::other(why.clone())),
        };
        outcome.map_err(io::Error::other)
    }

    /// The answer without a value in it.
    fn masked(&self, method: &Method, response: Response<Incoming>) -> Response<AnyBody> {
        let (mut head, body) = response.into_parts();
        head.extensions.remove::<hyper::ext::ReasonPhrase>();
        // Another way to the same host, past whoever looks into this one.
        head.headers.remove(ALT_SVC);
        let mut body = any(body);
        let Some(masks) = &self.host.masks else { return Response::from_parts(head, body) };
        let has_body = *method != Method::HEAD && !body.is_end_stream();
        let transfer = words(&head.headers, &TRANSFER_ENCODING).find(|word| word != "chunked");
        if let Some(encoding) = transfer {
            return self.unsearchable(&encoding);
        }
        let packed = encodings(&head.headers);
        if packed.len() > LAYERS {
            return self.unsearchable(&packed.join(", "));
        }
        for encoding in packed.into_iter().rev().filter(|_| has_body) {
            head.headers.remove(CONTENT_LENGTH);
            head.headers.remove(CONTENT_ENCODING);
            let Some(unpacked) = plain(body, &encoding) else { return self.unsearchable(&encoding) };
            body = unpacked;
        }
        rewrite_fields(&mut head.headers, masks);
        Response::from_parts(head, rewritten(body, masks))
    }

    fn unsearchable(&self, encoding: &str) -> Response<AnyBody> {
        let rule = format!("its answer is packed with `{encoding}`, and cannot be searched for secrets");
        self.tell(Verdict::Failed, EventKind::Secret, rule.clone());
        refusal(StatusCode::BAD_GATEWAY, "secret_policy_denied", &rule)
    }

    fn upgrade(&self, guest: OnUpgrade, mut response: Response<Incoming>) -> Response<AnyBody> {
        let server = hyper::upgrade::on(&mut response);
        let (one, masks) = (Arc::clone(&self.one), self.host.masks.clone());
        tokio::spawn(async move {
            upgraded::carry(guest, server, masks).await;
            drop(one);
        });
        let (mut head, body) = response.into_parts();
        if let Some(masks) = &self.host.masks {
            rewrite_fields(&mut head.headers, masks);
        }
        Response::from_parts(head, any(body))
    }

    fn tell(&self, verdict: Verdict, kind: EventKind, rule: String) {
        let (name, address) = (Some(self.name.clone()), Some(self.to.to_string()));
        self.log.report(&Event { at: now(), verdict, kind, name, address, rule, opens: None });
    }
}

/// Has a server answer in what can be searched: what is compressed would have to be unpacked, and of the protocols to
/// which a connection can change, WebSocket says what it carries.
fn ask_plainly(fields: &mut HeaderMap) {
    fields.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    fields.remove(SEC_WEBSOCKET_EXTENSIONS);
    if fields.remove(TE).is_some() {
        fields.insert(TE, HeaderValue::from_static("trailers"));
    }
    if fields.get(UPGRADE).is_some_and(|protocol| !protocol.as_bytes().eq_ignore_ascii_case(b"websocket")) {
        fields.remove(UPGRADE);
    }
}

/// How an answer is packed, in the order in which that was done.
fn encodings(fields: &HeaderMap) -> Vec<String> {
    words(fields, &CONTENT_ENCODING).filter(|word| word != "identity").collect()
}

/// The words of a list in a field, in lower case.
fn words(fields: &HeaderMap, name: &HeaderName) -> impl Iterator<Item = String> {
    let values = fields.get_all(name).iter().filter_map(|value| value.to_str().ok());
    let words = values.flat_map(|value| value.split(',')).map(|word| word.trim().to_ascii_lowercase());
    words.filter(|word| !word.is_empty())
}

/// Whether every place in which a request names its host names this one.
fn names_host(head: &request::Parts, name: &str, port: u16) -> bool {
    let is_it = |text: &str| {
        let (host, at) = match text.rsplit_once(':') {
            Some((host, at)) => (host, at.parse().ok()),
            None => (text, Some(port)),
        };
        host.trim_end_matches('.').eq_ignore_ascii_case(name) && at == Some(port)
    };
    let mut named = head.uri.authority().map(Authority::as_str).into_iter().collect::<Vec<_>>();
    for host in head.headers.get_all(HOST) {
        named.push(host.to_str().unwrap_or_default());
    }
    // An old client of HTTP/1.0 names none; two are one too many.
    head.headers.get_all(HOST).iter().count() <= 1 && named.into_iter().all(is_it)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_the_host_of_its_connection_everywhere() {
        let named = |target: &str, hosts: &[&str]| {
            let mut request = Request::builder().uri(target);
            for host in hosts {
                request = request.header(HOST, *host);
            }
            names_host(&request.body(()).unwrap().into_parts().0, "api.example.com", 443)
        };
        for (target, hosts) in [
            ("/", &["api.example.com"][..]),
            ("/", &["API.example.com.:443"]),
            ("https://api.example.com/x", &[]),
            ("https://api.example.com/x", &["api.example.com"]),
        ] {
            assert!(named(target, hosts), "{target} {hosts:?}");
        }
        for (target, hosts) in [
            ("/", &["evil.example.com"][..]),
            ("/", &["api.example.com:8443"]),
            ("/", &["api.example.com:x"]),
            ("/", &["api.example.com", "api.example.com"]),
            ("https://evil.example.com/", &["api.example.com"]),
            ("https://api.example.com/", &["evil.example.com"]),
            ("https://me@api.example.com/", &[]),
        ] {
            assert!(!named(target, hosts), "{target} {hosts:?}");
        }
    }
}

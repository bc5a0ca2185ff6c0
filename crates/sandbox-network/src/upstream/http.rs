//! What one says to an HTTP proxy, and what it answers.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sandbox_model::ProxyUrl;
use tokio::io::{AsyncRead, AsyncReadExt};
use zeroize::Zeroizing;

use super::dial::DialError;

/// A longer head of an answer is none.
const MOST: usize = 16 << 10;

/// A request to open a tunnel to `HOST:PORT`.
pub(super) fn connect(proxy: &ProxyUrl, to: &str) -> Zeroizing<String> {
    let mut head = Zeroizing::new(format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n"));
    authorize(proxy, &mut head);
    head.push_str("\r\n");
    head
}

/// The line that says who asks, where the proxy has a user.
pub(super) fn authorize(proxy: &ProxyUrl, head: &mut String) {
    if proxy.user.is_none() && proxy.password.is_none() {
        return;
    }
    let (user, password) = (proxy.user.as_deref().unwrap_or_default(), proxy.password.as_ref());
    let password = password.map(sandbox_model::SecretValue::reveal).unwrap_or_default();
    let both = Zeroizing::new(format!("{user}:{password}"));
    let encoded = Zeroizing::new(STANDARD.encode(both.as_bytes()));
    let _ = write!(head, "Proxy-Authorization: Basic {}\r\n", encoded.as_str());
}

/// Reads the answer to [`connect`] and not a byte more.
pub(super) async fn tunnelled(
    stream: &mut (impl AsyncRead + Unpin),
    proxy: &ProxyUrl,
) -> Result<(), DialError> {
    loop {
        let mut head = Vec::with_capacity(256);
        while !head.ends_with(b"\r\n\r\n") {
            if head.len() == MOST {
                return Err(DialError::NotHttp);
            }
            head.push(stream.read_u8().await.map_err(DialError::Broken)?);
        }
        let mut fields = [httparse::EMPTY_HEADER; 64];
        let mut answer = httparse::Response::new(&mut fields);
        let parsed = answer.parse(&head).ok().filter(httparse::Status::is_complete);
        match parsed.and(answer.code) {
            None => return Err(DialError::NotHttp),
            Some(100..200) => {}
            Some(200..300) => return Ok(()),
            Some(code) => return Err(DialError::status(code, proxy)),
        }
    }
}

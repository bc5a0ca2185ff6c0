//! Plain HTTP through an HTTP proxy: most proxies open tunnels to the port of HTTPS alone, and want the rest as
//! requests with the whole address in them.

use std::fmt::Write;
use std::net::SocketAddr;
use std::time::Duration;

use sandbox_model::ProxyUrl;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy, copy_bidirectional};
use tokio::net::TcpStream;
use tokio::time::timeout;
use zeroize::Zeroizing;

use super::dial::{DialError, Dialer, Stream, Wanted};
use super::http;

/// The port that is plain HTTP's.
pub(super) const PORT: u16 = 80;
/// A client of another protocol may wait for the server's first words.
const SPEAKS: Duration = Duration::from_secs(3);
const MOST: usize = 64 << 10;

/// Serves one connection of the guest. Each has one request: the proxy is told that it is the last, and says
/// so to the client, which makes another connection for the next. Nothing that follows the request reaches the
/// proxy: it would take it for another one, about which nobody asked the policy.
pub(super) async fn serve(
    dialer: &Dialer,
    guest: &mut TcpStream,
    proxy: &ProxyUrl,
    host: &str,
) -> Result<(), DialError> {
    let Some(first) = first_words(guest).await.map_err(DialError::Broken)? else { return Ok(()) };
    let Some(Request { words, body }) = rewritten(&first, proxy, host) else {
        let (name, port) = host.rsplit_once(':').unwrap_or((host, "80"));
        let address: Option<SocketAddr> = host.parse().ok();
        let name = Some(name).filter(|_| address.is_none());
        let wanted = Wanted { name, address, port: port.parse().unwrap_or(PORT) };
        let mut outside = dialer.tunnel(proxy, wanted).await?;
        send(&mut outside, &first).await?;
        // How either side ends is not the proxy's failure.
        let _ = copy_bidirectional(guest, &mut outside).await;
        return Ok(());
    };
    let mut outside = match dialer.reach(proxy).await {
        Ok(outside) => outside,
        Err(problem) => {
            let text = format!("the proxy of this host {problem}\n");
            let head = "HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/plain\r\nConnection: close\r\n";
            let answer = format!("{head}Content-Length: {}\r\n\r\n{text}", text.len());
            let _ = guest.write_all(answer.as_bytes()).await;
            return Err(problem);
        }
    };
    send(&mut outside, &words).await?;
    let (from_guest, mut to_guest) = guest.split();
    let (mut from_proxy, mut to_proxy) = tokio::io::split(outside);
    let mut body = from_guest.take(body);
    let answer = async {
        let mut first = Vec::with_capacity(4096);
        from_proxy.read_buf(&mut first).await?;
        to_guest.write_all(&first).await?;
        copy(&mut from_proxy, &mut to_guest).await?;
        std::io::Result::Ok(first)
    };
    let upload = async {
        if copy(&mut body, &mut to_proxy).await.is_ok() {
            let _ = to_proxy.flush().await;
        }
        // The answer is the end of it.
        std::future::pending::<()>().await;
    };
    let refused = tokio::select! {
        first = answer => first.is_ok_and(|first| wants_to_know_who(&first)),
        () = upload => false,
    };
    let _ = to_guest.shutdown().await;
    if refused { Err(DialError::status(407, proxy)) } else { Ok(()) }
}

/// Whether an answer is the proxy's own: of the refusals, only this one cannot come from a server behind it.
fn wants_to_know_who(answer: &[u8]) -> bool {
    answer.starts_with(b"HTTP/1.") && answer.get(8..12) == Some(b" 407")
}

async fn send(outside: &mut Box<dyn Stream>, words: &[u8]) -> Result<(), DialError> {
    outside.write_all(words).await.map_err(DialError::Broken)?;
    outside.flush().await.map_err(DialError::Broken)
}

/// A request for a proxy.
struct Request {
    /// The head, and what came of the body with it.
    words: Zeroizing<Vec<u8>>,
    /// How many bytes of the body follow.
    body: u64,
}

/// A whole head of a request, or what came instead of one; `None` where the guest, or the policy that looked at
/// its words, ended the connection before there was any.
async fn first_words(guest: &mut TcpStream) -> std::io::Result<Option<Vec<u8>>> {
    let mut words = Vec::new();
    while words.len() < MOST && head_end(&words).is_none() && looks_like_http(&words) {
        let Ok(read) = timeout(SPEAKS, guest.read_buf(&mut words)).await else { break };
        if read? == 0 {
            return Ok((!words.is_empty()).then_some(words));
        }
    }
    Ok(Some(words))
}

fn head_end(words: &[u8]) -> Option<usize> {
    words.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4)
}

fn looks_like_http(words: &[u8]) -> bool {
    words.iter().take_while(|byte| **byte != b' ').all(u8::is_ascii_uppercase)
}

/// The request as a proxy wants it; `None` for what is no HTTP request that it could forward.
fn rewritten(words: &[u8], proxy: &ProxyUrl, host: &str) -> Option<Request> {
    let end = head_end(words)?;
    let mut fields = [httparse::EMPTY_HEADER; 128];
    let mut request = httparse::Request::new(&mut fields);
    request.parse(&words[..end]).ok().filter(httparse::Status::is_complete)?;
    let (method, path) = (request.method?, request.path?);
    let body = length(request.headers)?;
    let here = (words.len() - end).min(usize::try_from(body).unwrap_or(usize::MAX));
    if !(path.starts_with('/') || path == "*") || tunnels(method) {
        return None;
    }
    let authority = host.strip_suffix(":80").unwrap_or(host);
    let path = if path == "*" { "" } else { path };
    let version = request.version.unwrap_or(1);
    let mut head = Zeroizing::new(String::with_capacity(end + 512));
    write!(head, "{method} http://{authority}{path} HTTP/1.{version}\r\n").ok()?;
    http::authorize(proxy, &mut head);
    head.push_str("Connection: close\r\n");
    let mut bytes = Zeroizing::new(head.as_bytes().to_vec());
    let ours = ["connection", "proxy-connection", "proxy-authorization", "keep-alive", "max-forwards"];
    for field in
        request.headers.iter().filter(|field| !ours.contains(&field.name.to_ascii_lowercase().as_str()))
    {
        bytes.extend_from_slice(field.name.as_bytes());
        bytes.extend_from_slice(b": ");
        bytes.extend_from_slice(field.value);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(&words[end..end + here]);
    Some(Request { words: bytes, body: body - here as u64 })
}

/// A proxy takes the first for itself. It may answer the second, whatever its address, with all that it was sent: with
/// the password too.
fn tunnels(method: &str) -> bool {
    ["CONNECT", "TRACE"].iter().any(|other| method.eq_ignore_ascii_case(other))
}

/// How long the body is, where that is plain to see; whoever reads it otherwise than the proxy does would let the
/// guest speak with the proxy itself.
fn length(fields: &[httparse::Header<'_>]) -> Option<u64> {
    let mut length = None;
    for field in fields {
        match field.name.to_ascii_lowercase().as_str() {
            "upgrade" | "transfer-encoding" => return None,
            "content-length" if length.is_some() => return None,
            "content-length" => {
                let digits = std::str::from_utf8(field.value).ok()?;
                let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
                length = Some(digits.parse().ok().filter(|_| plain)?);
            }
            _ => {}
        }
    }
    Some(length.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_gets_its_whole_address_and_the_proxys_password() {
        let proxy: ProxyUrl = "http://me:pw@proxy:3128".parse().unwrap();
        let asked = b"POST /x?y HTTP/1.1\r\nHost: a.example\r\nConnection: keep-alive\r\nMax-Forwards: 0\r\nProxy-Authorization: Basic bad\r\nContent-Length: 4\r\n\r\nbodyGET http://denied/";
        let text = |host| {
            let request = rewritten(asked, &proxy, host).unwrap();
            assert_eq!(request.body, 0);
            String::from_utf8(request.words.to_vec()).unwrap()
        };
        assert_eq!(
            text("a.example:80"),
            "POST http://a.example/x?y HTTP/1.1\r\nProxy-Authorization: Basic bWU6cHc=\r\nConnection: close\r\n\
             Host: a.example\r\nContent-Length: 4\r\n\r\nbody",
            "and not what follows"
        );
        let open: ProxyUrl = "proxy:3128".parse().unwrap();
        let request = rewritten(b"GET / HTTP/1.0\r\n\r\n", &open, "[2001:db8::1]:80").unwrap();
        assert!(
            request.words.starts_with(b"GET http://[2001:db8::1]/ HTTP/1.0\r\nConnection: close\r\n\r\n")
        );
    }

    #[test]
    fn what_a_proxy_cannot_forward_goes_through_a_tunnel() {
        let proxy: ProxyUrl = "proxy:3128".parse().unwrap();
        for words in [
            &b"SSH-2.0-x\r\n\r\n"[..],
            b"GET / HTTP/1.1\r\nUpgrade: websocket\r\n\r\n",
            b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            b"POST / HTTP/1.1\r\nContent-Length: +1\r\n\r\n",
            b"GET http://other/ HTTP/1.1\r\n\r\n",
            b"CONNECT a:1 HTTP/1.1\r\n\r\n",
            b"TRACE / HTTP/1.1\r\nMax-Forwards: 0\r\n\r\n",
            b"Trace / HTTP/1.1\r\n\r\n",
            b"GET / HTTP/1.1\r\n",
            b"",
        ] {
            assert!(rewritten(words, &proxy, "a:80").is_none(), "{}", String::from_utf8_lossy(words));
        }
        assert!(wants_to_know_who(b"HTTP/1.1 407 Who are you\r\n") && wants_to_know_who(b"HTTP/1.0 407"));
        assert!(!wants_to_know_who(b"HTTP/1.1 403 No\r\n") && !wants_to_know_who(b"HTTP/1.1"));
        assert!(!looks_like_http(b"SSH-2.0") && looks_like_http(b"GET / HT") && looks_like_http(b""));
    }
}

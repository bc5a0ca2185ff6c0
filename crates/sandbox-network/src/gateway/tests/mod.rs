mod case;

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, Request, Response, StatusCode, Version};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use case::{Case, Guest, HOST, TestBody, VALUE, body, get, secret, text};

const BOTH: [&str; 2] = ["h2", "http/1.1"];

type Answer = Pin<Box<dyn Future<Output = Response<TestBody>> + Send>>;

/// What a server was asked, in order, and the server's answer: the request's own words in head and body.
fn echo() -> (impl Fn(Request<Incoming>) -> Answer + Clone, UnboundedReceiver<(Parts, String)>) {
    let (hears, told) = unbounded_channel();
    let answer = move |request: Request<Incoming>| {
        let hears = hears.clone();
        Box::pin(async move {
            let (head, asked) = request.into_parts();
            let asked = String::from_utf8(asked.collect().await.unwrap().to_bytes().to_vec()).unwrap();
            let credential = head.headers.get(AUTHORIZATION).cloned();
            let credential = credential.unwrap_or_else(|| "none".parse().unwrap());
            let words = format!("{} {} {asked}", head.uri, credential.to_str().unwrap());
            let length = words.len();
            hears.send((head, asked)).unwrap();
            Response::builder()
                .header("x-echo", credential)
                .header("alt-svc", "h3=\":443\"")
                .header(CONTENT_LENGTH, length)
                .body(body(words))
                .unwrap()
        }) as Answer
    };
    (answer, told)
}

#[tokio::test]
async fn both_protocols_carry_the_value_there_and_not_back() {
    let case = Case::new(secret(|_| {}));
    for protocol in BOTH {
        let (answer, mut told) = echo();
        let server = case.server(&BOTH, answer).await;
        let mut guest = Guest::new(&case, server, HOST, protocol).await;
        // Twice, for a connection is kept.
        for path in ["/one", "/two"] {
            let request = get(protocol, path).header("authorization", "Bearer $MSB_API_KEY");
            let response = guest.ask(request.header("accept-encoding", "gzip").body(body("")).unwrap()).await;
            let (head, _) = told.recv().await.unwrap();
            assert_eq!(head.headers[AUTHORIZATION], format!("Bearer {VALUE}"));
            assert_eq!(head.headers[ACCEPT_ENCODING], "identity");
            assert_eq!(head.version, if protocol == "h2" { Version::HTTP_2 } else { Version::HTTP_11 });
            assert_eq!((response.status(), response.version()), (StatusCode::OK, head.version));
            let stars = "*".repeat(VALUE.len());
            assert_eq!(response.headers()["x-echo"], format!("Bearer {stars}"));
            assert!(!response.headers().contains_key("alt-svc"), "a way past the gateway");
            let said = text(response).await;
            assert!(said.contains(path) && said.contains(&format!("Bearer {stars}")), "{said}");
        }
    }
    assert_eq!(case.said.text(), "");
}

#[tokio::test]
async fn a_server_of_one_protocol_gets_a_guest_of_that() {
    let case = Case::new(secret(|_| {}));
    let (answer, _told) = echo();
    for (server, guest, spoken) in [
        (&["http/1.1"][..], &BOTH[..], Some("http/1.1")),
        (&["h2"], &BOTH, Some("h2")),
        (&[], &BOTH, Some("http/1.1")),
        (&BOTH, &["http/1.1"], Some("http/1.1")),
        (&BOTH, &[], None),
    ] {
        let at = case.server(server, answer.clone()).await;
        let stream = case.tls(at, HOST, guest).await;
        assert_eq!(stream.get_ref().1.alpn_protocol(), spoken.map(str::as_bytes), "{server:?} {guest:?}");
    }
}

#[tokio::test]
async fn bodies_and_queries_have_the_value_where_they_are_named() {
    let case = Case::new(secret(|secret| (secret.query, secret.body) = (true, true)));
    for protocol in BOTH {
        let (answer, mut told) = echo();
        let server = case.server(&BOTH, answer).await;
        let post = |kind: &str, words: String| {
            let request =
                get(protocol, "/?key=%24MSB_API_KEY").method(Method::POST).header("content-type", kind);
            request.header(CONTENT_LENGTH, words.len()).body(body(words)).unwrap()
        };
        let response = case.ask(server, protocol, post("text/plain", "key: $MSB_API_KEY;".into())).await;
        let (head, asked) = told.recv().await.unwrap();
        assert_eq!(
            (head.uri.query(), asked.as_str()),
            (Some(&*format!("key={VALUE}")), &*format!("key: {VALUE};"))
        );
        assert_eq!(head.headers[CONTENT_LENGTH], asked.len().to_string());
        let said = text(response).await;
        assert!(!said.contains(VALUE) && said.contains("**"), "{said}");
        case.ask(
            server,
            protocol,
            post("application/x-www-form-urlencoded", "a=b&key=%24MSB_API_KEY".into()),
        )
        .await;
        assert_eq!(told.recv().await.unwrap().1, format!("a=b&key={VALUE}"));
        // More than is put together before it leaves.
        let long = format!("{}$MSB_API_KEY", "x".repeat(9 << 20));
        case.ask(server, protocol, post("text/plain", long)).await;
        let (head, asked) = told.recv().await.unwrap();
        assert!(asked.len() == (9 << 20) + VALUE.len() && asked.ends_with(VALUE), "{}", asked.len());
        assert!(!head.headers.contains_key(CONTENT_LENGTH));
    }
}

#[tokio::test]
async fn a_value_with_quotes_is_still_json() {
    let case = Case::new(secret(|secret| secret.body = true));
    case.gateway
        .change(&[("API_KEY".into(), sandbox_model::SecretValue::new("a \"quoted\" value".into()))].into());
    let (answer, mut told) = echo();
    let server = case.server(&BOTH, answer).await;
    let request = get("h2", "/").header("content-type", "application/json; charset=utf-8");
    let said = case.ask(server, "h2", request.body(body("{\"key\":\"$MSB_API_KEY\"}")).unwrap()).await;
    let asked: serde_json::Value = serde_json::from_str(&told.recv().await.unwrap().1).unwrap();
    assert_eq!(asked["key"], "a \"quoted\" value");
    let said = text(said).await;
    assert!(said.contains("{\"key\":\"**") && !said.contains("quoted"), "{said}");
}

/// An answer in pieces, with trailers after them.
fn pieces(pieces: Vec<Bytes>, trailers: HeaderMap) -> TestBody {
    let frames = pieces.into_iter().map(Frame::data).chain([Frame::trailers(trailers)]);
    BodyExt::boxed(StreamBody::new(futures::stream::iter(frames.map(Ok))))
}

#[tokio::test]
async fn an_answer_has_no_value_however_it_comes() {
    let case = Case::new(secret(|_| {}));
    for protocol in BOTH {
        let answer = |_| async {
            let (one, two) = VALUE.split_at(7);
            let parts = ["before ", one, two, " after"].map(|part| Bytes::copy_from_slice(part.as_bytes()));
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-message", format!("bad key {VALUE}").parse().unwrap());
            Response::builder()
                .header("trailer", "grpc-message")
                .body(pieces(parts.to_vec(), trailers))
                .unwrap()
        };
        let server = case.server(&BOTH, answer).await;
        let request = get(protocol, "/").header("te", "trailers").body(body("")).unwrap();
        let said = case.ask(server, protocol, request).await.into_body().collect().await.unwrap();
        let stars = "*".repeat(VALUE.len());
        let trailers = said.trailers().expect("they pass").clone();
        assert_eq!(trailers["grpc-message"], format!("bad key {stars}"));
        assert_eq!(said.to_bytes(), format!("before {stars} after"));
    }
}

#[tokio::test]
async fn an_answer_that_is_packed_is_unpacked_or_does_not_pass() {
    use async_compression::tokio::write::{BrotliEncoder, GzipEncoder, ZlibEncoder, ZstdEncoder};
    let case = Case::new(secret(|_| {}));
    let words = format!("the key is {VALUE}.");
    macro_rules! packed {
        ($encoder:ident) => {{
            let mut encoder = $encoder::new(Vec::new());
            encoder.write_all(words.as_bytes()).await.unwrap();
            encoder.shutdown().await.unwrap();
            encoder.into_inner()
        }};
    }
    for (encoding, bytes) in [
        ("gzip", packed!(GzipEncoder)),
        ("br", packed!(BrotliEncoder)),
        ("zstd", packed!(ZstdEncoder)),
        ("deflate", packed!(ZlibEncoder)),
        ("identity", words.clone().into_bytes()),
        ("strange", words.clone().into_bytes()),
        ("br, br, br", words.clone().into_bytes()),
    ] {
        let answer = move |_| {
            let bytes = bytes.clone();
            async move { Response::builder().header(CONTENT_ENCODING, encoding).body(body(bytes)).unwrap() }
        };
        let server = case.server(&BOTH, answer).await;
        let response = case.ask(server, "h2", get("h2", "/").body(body("")).unwrap()).await;
        let (status, packed) = (response.status(), response.headers().get(CONTENT_ENCODING).cloned());
        let said = text(response).await;
        assert!(!said.contains(VALUE), "{encoding}: {said}");
        if ["strange", "br, br, br"].contains(&encoding) {
            assert_eq!(status, StatusCode::BAD_GATEWAY, "{said}");
            continue;
        }
        assert_eq!(
            (status, said),
            (StatusCode::OK, words.replace(VALUE, &"*".repeat(VALUE.len()))),
            "{encoding}"
        );
        assert!(packed.is_none_or(|packed| packed == "identity"), "{encoding}");
    }
    assert!(case.said.text().contains("packed with `strange`"), "{}", case.said.text());
}

#[tokio::test]
async fn events_pass_when_they_come() {
    let case = Case::new(secret(|_| {}));
    for protocol in BOTH {
        let (more, rest) = unbounded_channel::<Bytes>();
        let rest = Arc::new(std::sync::Mutex::new(Some(rest)));
        let answer = move |_| {
            let rest = rest.lock().unwrap().take().unwrap();
            let events = futures::stream::unfold(rest, |mut rest| async {
                Some((Ok(Frame::data(rest.recv().await?)), rest))
            });
            async {
                Response::builder()
                    .header("content-type", "text/event-stream")
                    .body(BodyExt::boxed(StreamBody::new(events)))
                    .unwrap()
            }
        };
        let server = case.server(&BOTH, answer).await;
        let response = case.ask(server, protocol, get(protocol, "/").body(body("")).unwrap()).await;
        let mut events = response.into_body().into_data_stream();
        for event in ["data: 1\n\n", "data: sk-other\n\n"] {
            more.send(Bytes::from(event)).unwrap();
            // The server says nothing more until this has come.
            assert_eq!(events.next().await.unwrap().unwrap(), event);
        }
        drop(more);
        assert!(events.next().await.is_none_or(|end| end.unwrap().is_empty()));
    }
}

#[tokio::test]
async fn what_may_not_leave_is_told_and_the_server_hears_nothing() {
    let case = Case::new(secret(|_| {}));
    for protocol in BOTH {
        let (answer, mut told) = echo();
        let server = case.server(&BOTH, answer).await;
        let mut other = Guest::new(&case, server, "other.example.com", protocol).await;
        let request = |name: &str, field: &str| {
            let request = if protocol == "h2" {
                Request::builder().uri(format!("https://{name}/"))
            } else {
                Request::builder().uri("/").header("host", name)
            };
            request.header("x-field", field).body(body("")).unwrap()
        };
        let refused = other.ask(request("other.example.com", "$MSB_API_KEY")).await;
        assert_eq!(refused.status(), StatusCode::FORBIDDEN);
        let said = text(refused).await;
        assert!(said.contains("secret_policy_denied") && said.contains("API_KEY"), "{said}");
        let refused = other.ask(request(HOST, "")).await;
        assert_eq!(refused.status(), StatusCode::MISDIRECTED_REQUEST);
        // The door.
        let passed = other.ask(request("other.example.com", "x")).await;
        assert_eq!(passed.status(), StatusCode::OK);
        assert_eq!(told.recv().await.unwrap().0.headers["x-field"], "x");
        assert!(told.try_recv().is_err());
    }
    let said = case.said.text();
    assert!(
        said.contains("denied secret other.example.com") && said.contains("denied tls other.example.com"),
        "{said}"
    );
}

#[tokio::test]
async fn a_server_that_proves_nothing_hears_nothing_and_the_guest_hears_why() {
    let (case, world) = (Case::new(secret(|_| {})), Case::new(secret(|_| {})));
    for protocol in BOTH {
        let (answer, mut told) = echo();
        let server = world.server(&BOTH, answer).await;
        let request =
            get(protocol, "/").header("authorization", "Bearer $MSB_API_KEY").body(body("")).unwrap();
        let response = case.ask(server, protocol, request).await;
        assert_eq!(response.status(), StatusCode::BAD_GATEWAY);
        assert!(text(response).await.contains("certificate"));
        assert!(told.try_recv().is_err());
    }
    assert!(case.said.text().contains("failed tls api.example.com"), "{}", case.said.text());
}

#[tokio::test]
async fn a_connection_that_changes_its_protocol_has_stars_too() {
    let case = Case::new(secret(|_| {}));
    let answer = |mut request: Request<Incoming>| async move {
        let credential = request.headers()[AUTHORIZATION].to_str().unwrap().to_string();
        assert!(!request.headers().contains_key("sec-websocket-extensions"));
        let stream = hyper::upgrade::on(&mut request);
        tokio::spawn(async move {
            let mut stream = hyper_util::rt::TokioIo::new(stream.await.unwrap());
            let mut word = [0; 5];
            stream.read_exact(&mut word).await.unwrap();
            stream
                .write_all(format!("{} {credential}", String::from_utf8_lossy(&word)).as_bytes())
                .await
                .unwrap();
            stream.shutdown().await.unwrap();
        });
        let response =
            Response::builder().status(StatusCode::SWITCHING_PROTOCOLS).header("upgrade", "websocket");
        response.header("connection", "upgrade").body(body("")).unwrap()
    };
    let server = case.server(&["http/1.1"], answer).await;
    let request = get("http/1.1", "/").header("upgrade", "websocket").header("connection", "upgrade");
    let request = request.header("sec-websocket-extensions", "permessage-deflate");
    let request = request.header("authorization", "Bearer $MSB_API_KEY").body(body("")).unwrap();
    let response = case.ask(server, "http/1.1", request).await;
    assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
    let mut stream = hyper_util::rt::TokioIo::new(hyper::upgrade::on(response).await.unwrap());
    stream.write_all(b"hello").await.unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).await.unwrap();
    assert_eq!(said, format!("hello Bearer {}", "*".repeat(VALUE.len())));
}

#[tokio::test]
async fn a_server_is_asked_for_nothing_that_cannot_be_searched() {
    let case = Case::new(secret(|_| {}));
    let (answer, mut told) = echo();
    let server = case.server(&["http/1.1"], answer).await;
    let request = get("http/1.1", "/").header("te", "gzip, trailers").header("upgrade", "h2c");
    let request = request.header("connection", "te, upgrade").body(body("")).unwrap();
    assert_eq!(case.ask(server, "http/1.1", request).await.status(), StatusCode::OK);
    let (head, _) = told.recv().await.unwrap();
    assert_eq!((head.headers.get("upgrade"), &head.headers["te"]), (None, &"trailers".parse().unwrap()));

    // A server that packs its answer on its way all the same.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = listener.local_addr().unwrap();
    let tls = case.acceptor(&["http/1.1"]);
    tokio::spawn(async move {
        let mut stream = tls.accept(listener.accept().await.unwrap().0).await.unwrap();
        let mut words = [0; 4096];
        let _ = stream.read(&mut words).await.unwrap();
        let answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
        stream.write_all(answer.as_bytes()).await.unwrap();
        let _ = stream.read(&mut words).await;
    });
    let response = case.ask(server, "http/1.1", get("http/1.1", "/").body(body("")).unwrap()).await;
    assert_eq!(response.status(), StatusCode::BAD_GATEWAY);
    assert!(text(response).await.contains("packed with `gzip`"));
}

#[tokio::test]
async fn what_is_no_tls_passes_as_it_is() {
    let case = Case::new(secret(|_| {}));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut words = [0; 64];
            let count = socket.read(&mut words).await.unwrap();
            socket.write_all(&words[..count]).await.unwrap();
        }
    });
    let mut guest = case.connect(server).await;
    guest.write_all(b"SSH-2.0-$MSB_API_KEY\r\n").await.unwrap();
    let mut said = Vec::new();
    guest.read_to_end(&mut said).await.unwrap();
    assert_eq!(said, b"SSH-2.0-$MSB_API_KEY\r\n");
}

#[tokio::test]
async fn a_server_that_speaks_first_is_heard() {
    let case = Case::new(secret(|_| {}));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        socket.write_all(b"220 hello\r\n").await.unwrap();
        let mut words = [0; 64];
        let count = socket.read(&mut words).await.unwrap();
        socket.write_all(&words[..count]).await.unwrap();
    });
    let mut guest = case.connect(server).await;
    let mut said = vec![0; 11];
    guest.read_exact(&mut said).await.unwrap();
    guest.write_all(b"QUIT\r\n").await.unwrap();
    guest.read_to_end(&mut said).await.unwrap();
    assert_eq!(said, b"220 hello\r\nQUIT\r\n");
}

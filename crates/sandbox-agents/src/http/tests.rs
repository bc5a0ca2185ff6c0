use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;

use super::*;

/// A loopback stream as a connection to a guest.
struct Tcp(TcpStream);

impl Read for Tcp {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Tcp {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

impl Connection for Tcp {
    fn try_clone(&self) -> sandbox_runtime::Result<Box<dyn Connection>> {
        Ok(Box::new(Self(self.0.try_clone()?)))
    }

    fn shutdown_write(&mut self) -> sandbox_runtime::Result<()> {
        Ok(self.0.shutdown(std::net::Shutdown::Write)?)
    }

    fn set_timeout(&mut self, timeout: Option<Duration>) -> sandbox_runtime::Result<()> {
        self.0.set_read_timeout(timeout)?;
        Ok(self.0.set_write_timeout(timeout)?)
    }
}

fn get(
    client: &mut Tcp,
    path: &str,
    headers: &[(&str, &str)],
    limit: Duration,
) -> Result<Answer, ServerError> {
    super::ask(client, Request { method: "GET", path, headers, body: None }, limit)
}

/// A server that sends these pieces, some milliseconds apart, and then waits for the client to leave.
fn answering(pieces: &[&str]) -> (Tcp, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = Tcp(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
    let pieces: Vec<String> = pieces.iter().map(ToString::to_string).collect();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            request.push(byte[0]);
        }
        for piece in pieces {
            if piece == "CLOSE" {
                return String::from_utf8(request).unwrap();
            }
            // The client may have left already: that is what some cases are about.
            let _ = stream.write_all(piece.as_bytes());
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = stream.read(&mut [0]);
        String::from_utf8(request).unwrap()
    });
    (client, server)
}

fn ask(pieces: &[&str]) -> Result<Answer, ServerError> {
    let (mut client, server) = answering(pieces);
    let answer = get(&mut client, "/x", &[("a", "b")], Duration::from_secs(5));
    drop(client);
    let request = server.join().unwrap();
    assert!(request.starts_with("GET /x HTTP/1.1\r\n") && request.contains("\r\na: b\r\n"), "{request}");
    answer
}

fn body(pieces: &[&str]) -> String {
    String::from_utf8(ask(pieces).unwrap().body).unwrap()
}

#[test]
fn bodies_end_by_length_by_chunks_or_by_close() {
    assert_eq!(body(&["HTTP/1.1 200 OK\r\nContent-Len", "gth: 5\r\n\r\nhel", "lo"]), "hello");
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(body(&[chunked, "3\r\nhel\r", "\n2;x=y\r\nlo\r\n0\r\n\r\n"]), "hello");
    assert_eq!(body(&["HTTP/1.1 200 OK\r\n\r\nhel", "lo", "CLOSE"]), "hello");
}

#[test]
fn a_status_without_a_body_is_an_answer() {
    let answer = ask(&["HTTP/1.1 204 No Content\r\n\r\n"]).unwrap();
    assert_eq!(answer, Answer { status: 204, body: Vec::new() });
    assert_eq!(ask(&["HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"]).unwrap().status, 401);
}

#[test]
fn an_end_before_the_end_is_an_error() {
    for pieces in [
        &["CLOSE"][..],
        &["HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", "CLOSE"],
        &["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", "CLOSE"],
    ] {
        assert!(matches!(ask(pieces), Err(ServerError::Broken { .. })), "{pieces:?}");
    }
}

#[test]
fn what_is_not_http_or_too_long_is_refused() {
    for pieces in [
        &["SSH-2.0-OpenSSH\r\n"][..],
        &["HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"],
        &["HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n"],
        &["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffff\r\n"],
        &["HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n"],
    ] {
        assert!(matches!(ask(pieces), Err(ServerError::Malformed { .. })), "{pieces:?}");
    }
}

#[test]
fn a_server_that_never_answers_or_drips_is_left_at_the_deadline() {
    let drip: Vec<&str> =
        std::iter::once("HTTP/1.1 200 OK\r\nx: ").chain(std::iter::repeat_n("y", 400)).collect();
    for pieces in [&[][..], &drip] {
        let (mut client, server) = answering(pieces);
        let begin = Instant::now();
        let answer = get(&mut client, "/x", &[], Duration::from_millis(200));
        assert!(matches!(answer, Err(ServerError::TimedOut { .. })), "{answer:?}");
        assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
        drop(client);
        server.join().unwrap();
    }
}

#[test]
fn a_header_cannot_smuggle_another() {
    let (mut client, server) = answering(&[]);
    let answer = get(&mut client, "/x", &[("d", "a\r\nb: c")], Duration::from_secs(1));
    assert!(matches!(answer, Err(ServerError::Malformed { .. })));
    client.write_all(b"\r\n\r\n").unwrap();
    drop(client);
    server.join().unwrap();
}

//! One request over one connection: enough HTTP/1.1 to ask an agent's server, with a deadline for the whole
//! exchange and a limit on what a sandbox can make us read.

mod stream;

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use sandbox_runtime::Connection;

use crate::ServerError;

pub use stream::Lines;

/// The largest answer taken, in bytes. A list of 200 sessions is about 100 KiB.
const MAX_ANSWER: usize = 8 << 20;
const MAX_HEAD: usize = 64 << 10;

/// A whole answer, whatever its status.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
}

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    pub method: &'static str,
    pub path: &'a str,
    pub headers: &'a [(&'a str, &'a str)],
    /// JSON; `None` sends no body.
    pub body: Option<&'a [u8]>,
}

/// Sends a request and reads the whole answer, both within `limit`.
pub fn ask(
    connection: &mut dyn Connection,
    request: Request<'_>,
    limit: Duration,
) -> Result<Answer, ServerError> {
    let mut exchange = Exchange::new(connection, request.path, limit);
    exchange.send(request)?;
    let (status, head, body) = exchange.read_head()?;
    exchange.seen.drain(..head);
    let body = match body {
        Body::Length(length) => exchange.read_exactly(length)?,
        Body::Chunked => exchange.read_chunks()?,
        Body::UntilClose => exchange.read_to_end()?,
    };
    Ok(Answer { status, body })
}

enum Body {
    Length(usize),
    Chunked,
    UntilClose,
}

struct Exchange<'a> {
    connection: &'a mut dyn Connection,
    path: &'a str,
    limit: Duration,
    deadline: Instant,
    /// Received and not yet used.
    seen: Vec<u8>,
}

impl<'a> Exchange<'a> {
    fn new(connection: &'a mut dyn Connection, path: &'a str, limit: Duration) -> Self {
        Self { connection, path, limit, deadline: Instant::now() + limit, seen: Vec::new() }
    }

    fn send(&mut self, Request { method, path, headers, body }: Request<'_>) -> Result<(), ServerError> {
        let mut request = format!("{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n");
        for (name, value) in headers {
            // A line break would start another header. None of ours has one; a guest's folder name might.
            if value.contains(['\r', '\n']) {
                return Err(self.malformed(format!("the header {name} cannot be sent")));
            }
            request.extend([name, ": ", value, "\r\n"]);
        }
        if let Some(body) = body {
            let length = body.len().to_string();
            request.extend(["content-type: application/json\r\ncontent-length: ", &length, "\r\n"]);
        }
        request.push_str("\r\n");
        let mut request = request.into_bytes();
        request.extend(body.unwrap_or_default());
        self.arm()?;
        self.connection.write_all(&request).map_err(|error| self.broken(error))?;
        self.connection.flush().map_err(|error| self.broken(error))
    }

    fn read_head(&mut self) -> Result<(u16, usize, Body), ServerError> {
        loop {
            let mut headers = [httparse::EMPTY_HEADER; 64];
            let mut response = httparse::Response::new(&mut headers);
            match response.parse(&self.seen) {
                Ok(httparse::Status::Complete(length)) => {
                    let status = response.code.unwrap_or_default();
                    let body =
                        body_of(status, response.headers).map_err(|problem| self.malformed(problem))?;
                    return Ok((status, length, body));
                }
                Ok(httparse::Status::Partial) if self.seen.len() < MAX_HEAD => {}
                Ok(httparse::Status::Partial) => return Err(self.malformed("its head is too long".into())),
                Err(error) => return Err(self.malformed(error.to_string())),
            }
            if self.receive()? == 0 {
                return Err(self.broken(ErrorKind::UnexpectedEof.into()));
            }
        }
    }

    fn read_exactly(&mut self, length: usize) -> Result<Vec<u8>, ServerError> {
        if length > MAX_ANSWER {
            return Err(self.malformed(format!("it is {length} bytes long")));
        }
        while self.seen.len() < length {
            if self.receive()? == 0 {
                return Err(self.broken(ErrorKind::UnexpectedEof.into()));
            }
        }
        Ok(self.seen.drain(..length).collect())
    }

    fn read_chunks(&mut self) -> Result<Vec<u8>, ServerError> {
        let mut body = Vec::new();
        loop {
            match httparse::parse_chunk_size(&self.seen) {
                Ok(httparse::Status::Complete((_, 0))) => return Ok(body),
                Ok(httparse::Status::Complete((head, length))) => {
                    let length = usize::try_from(length).unwrap_or(usize::MAX);
                    if length > MAX_ANSWER - body.len() {
                        return Err(self.malformed("it is too long".into()));
                    }
                    self.seen.drain(..head);
                    body.extend(self.read_exactly(length)?);
                    // The line break that ends a chunk.
                    self.read_exactly(2)?;
                }
                Ok(httparse::Status::Partial) => {
                    if self.receive()? == 0 {
                        return Err(self.broken(ErrorKind::UnexpectedEof.into()));
                    }
                }
                Err(_) => return Err(self.malformed("a chunk has no size".into())),
            }
        }
    }

    fn read_to_end(&mut self) -> Result<Vec<u8>, ServerError> {
        while self.receive()? > 0 {}
        Ok(std::mem::take(&mut self.seen))
    }

    fn receive(&mut self) -> Result<usize, ServerError> {
        if self.seen.len() > MAX_ANSWER {
            return Err(self.malformed("it is too long".into()));
        }
        let mut buffer = [0; 16 << 10];
        loop {
            self.arm()?;
            match self.connection.read(&mut buffer) {
                Ok(count) => {
                    self.seen.extend(&buffer[..count]);
                    return Ok(count);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.broken(error)),
            }
        }
    }

    /// Gives the next call what is left of the whole exchange's time.
    fn arm(&mut self) -> Result<(), ServerError> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(self.timed_out());
        }
        self.connection.set_timeout(Some(left)).map_err(ServerError::Dial)
    }

    fn timed_out(&self) -> ServerError {
        ServerError::TimedOut { path: self.path.into(), limit: self.limit }
    }

    fn broken(&self, source: std::io::Error) -> ServerError {
        match source.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => self.timed_out(),
            _ => ServerError::Broken { path: self.path.into(), source },
        }
    }

    fn malformed(&self, problem: String) -> ServerError {
        ServerError::Malformed { path: self.path.into(), problem }
    }
}

/// How the body ends, by RFC 9112 §6.3.
fn body_of(status: u16, headers: &[httparse::Header<'_>]) -> Result<Body, String> {
    if status == 204 || status == 304 || (100..200).contains(&status) {
        return Ok(Body::Length(0));
    }
    let find = |name: &str| headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
    if let Some(encoding) = find("transfer-encoding") {
        return if encoding.value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
            Ok(Body::Chunked)
        } else {
            Err("its transfer encoding is unknown".into())
        };
    }
    match find("content-length") {
        None => Ok(Body::UntilClose),
        Some(length) => std::str::from_utf8(length.value)
            .ok()
            .and_then(|text| text.trim().parse().ok())
            .map(Body::Length)
            .ok_or_else(|| "its content length is not a number".into()),
    }
}

#[cfg(test)]
mod tests;

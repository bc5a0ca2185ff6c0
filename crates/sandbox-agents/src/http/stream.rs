//! An answer that does not end: read line by line, for as long as anyone wants.

use std::io::ErrorKind;
use std::time::Duration;

use sandbox_runtime::Connection;

use super::{Body, Exchange, MAX_ANSWER, Request};
use crate::ServerError;

/// An answer under way. What is not read yet is at most [`MAX_ANSWER`] bytes: a line that is longer is an
/// error.
pub struct Lines {
    connection: Box<dyn Connection>,
    path: String,
    /// Received, and still with the marks of chunks in it.
    raw: Vec<u8>,
    text: Vec<u8>,
    chunked: bool,
}

impl Lines {
    /// Sends the request; `limit` is for the head of the answer.
    pub fn open(
        mut connection: Box<dyn Connection>,
        request: Request<'_>,
        limit: Duration,
    ) -> Result<Self, ServerError> {
        let path = request.path.to_string();
        let mut exchange = Exchange::new(connection.as_mut(), &path, limit);
        exchange.send(request)?;
        let (status, head, body) = exchange.read_head()?;
        let raw = exchange.seen.split_off(head);
        if status != 200 {
            return Err(ServerError::Status { path, status, said: String::new() });
        }
        let chunked = matches!(body, Body::Chunked);
        Ok(Self { connection, path, raw, text: Vec::new(), chunked })
    }

    /// The next line, without its end; `None` when the answer is over. Nothing for longer than `limit` is an
    /// error.
    pub fn read(&mut self, limit: Duration) -> Result<Option<String>, ServerError> {
        loop {
            if let Some(end) = self.text.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.text.drain(..=end).collect();
                return Ok(Some(String::from_utf8_lossy(&line).trim_end().to_string()));
            }
            if self.decode()? && !self.receive(limit)? {
                return Ok(None);
            }
        }
    }

    /// Moves what is whole; `true` where more is needed.
    fn decode(&mut self) -> Result<bool, ServerError> {
        if !self.chunked {
            self.text.append(&mut self.raw);
            return Ok(!self.text.contains(&b'\n'));
        }
        match httparse::parse_chunk_size(&self.raw) {
            Ok(httparse::Status::Complete((head, length))) => {
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                // With the line break that ends a chunk.
                let Some(end) = head.checked_add(length).and_then(|end| end.checked_add(2)) else {
                    return Err(self.malformed("a chunk is too long"));
                };
                if self.raw.len() < end {
                    return Ok(true);
                }
                self.text.extend(&self.raw[head..end - 2]);
                self.raw.drain(..end);
                Ok(false)
            }
            Ok(httparse::Status::Partial) => Ok(true),
            Err(_) => Err(self.malformed("a chunk has no size")),
        }
    }

    /// Whether anything came.
    fn receive(&mut self, limit: Duration) -> Result<bool, ServerError> {
        if self.raw.len() + self.text.len() > MAX_ANSWER {
            return Err(self.malformed("a line is too long"));
        }
        self.connection.set_timeout(Some(limit)).map_err(ServerError::Dial)?;
        let mut buffer = [0; 16 << 10];
        loop {
            match self.connection.read(&mut buffer) {
                Ok(count) => {
                    self.raw.extend(&buffer[..count]);
                    return Ok(count > 0);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return Err(ServerError::TimedOut { path: self.path.clone(), limit });
                }
                Err(source) => return Err(ServerError::Broken { path: self.path.clone(), source }),
            }
        }
    }

    fn malformed(&self, problem: &str) -> ServerError {
        ServerError::Malformed { path: self.path.clone(), problem: problem.into() }
    }
}

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sandbox_runtime::Connection;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::http::{self, Answer, Lines, Request};
use crate::{DaemonProfile, ServerError};

/// The port of every agent's server, on the guest's loopback. A sandbox has one agent.
pub const DAEMON_PORT: u16 = 4096;

/// Makes one connection to the server; `Runtime::dial` of one sandbox and port.
pub type Dial<'a> = Box<dyn Fn() -> sandbox_runtime::Result<Box<dyn Connection>> + Send + 'a>;

/// An agent's server, as asked from the host. Every request is a connection of its own.
pub struct Server<'a> {
    dial: Dial<'a>,
    authorization: String,
    profile: &'static DaemonProfile,
    timeout: Duration,
}

impl std::fmt::Debug for Server<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

impl<'a> Server<'a> {
    /// `timeout` is for each whole request.
    pub fn new(profile: &'static DaemonProfile, dial: Dial<'a>, password: &str, timeout: Duration) -> Self {
        let authorization = format!("Basic {}", BASE64.encode(format!("{}:{password}", profile.username)));
        Self { dial, authorization, profile, timeout }
    }

    /// What the server is asked for, and how: paths and the rest differ from agent to agent.
    pub const fn profile(&self) -> &'static DaemonProfile {
        self.profile
    }

    fn ask(
        &self,
        method: &'static str,
        path: &str,
        directory: Option<&str>,
        body: Option<&Value>,
    ) -> Result<Answer, ServerError> {
        let mut connection = (self.dial)().map_err(ServerError::Dial)?;
        let mut headers =
            vec![("authorization", self.authorization.as_str()), ("accept", "application/json")];
        let directory = directory.map(encoded);
        if let Some(directory) = &directory {
            headers.push(("x-opencode-directory", directory));
        }
        let body = body.map(|body| body.to_string().into_bytes());
        let request = Request { method, path, headers: &headers, body: body.as_deref() };
        let answer = http::ask(connection.as_mut(), request, self.timeout)?;
        if (200..300).contains(&answer.status) {
            return Ok(answer);
        }
        Err(ServerError::Status { path: path.into(), status: answer.status, said: said(&answer.body) })
    }

    /// An answer that goes on for as long as somebody listens.
    pub(crate) fn listen(&self, path: &str) -> Result<Lines, ServerError> {
        let connection = (self.dial)().map_err(ServerError::Dial)?;
        let headers = [("authorization", self.authorization.as_str()), ("accept", "text/event-stream")];
        let request = Request { method: "GET", path, headers: &headers, body: None };
        Lines::open(connection, request, self.timeout)
    }

    /// The JSON answer to a GET; any status but a good one is an error.
    pub(crate) fn json<T: DeserializeOwned>(
        &self,
        path: &str,
        directory: Option<&str>,
    ) -> Result<T, ServerError> {
        parse(path, &self.ask("GET", path, directory, None)?)
    }

    /// Likewise, to a request that changes something.
    pub(crate) fn change<T: DeserializeOwned>(
        &self,
        method: &'static str,
        path: &str,
        directory: &str,
        body: &Value,
    ) -> Result<T, ServerError> {
        parse(path, &self.ask(method, path, Some(directory), Some(body))?)
    }
}

fn parse<T: DeserializeOwned>(path: &str, answer: &Answer) -> Result<T, ServerError> {
    serde_json::from_slice(&answer.body)
        .map_err(|error| ServerError::Malformed { path: path.into(), problem: error.to_string() })
}

/// The message in the body of a refusal, for people: where there is one, one short line.
fn said(body: &[u8]) -> String {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    let message = value.pointer("/data/message").or_else(|| value.get("message")).and_then(Value::as_str);
    let line: String = message.unwrap_or_default().chars().filter(|c| !c.is_control()).take(200).collect();
    if line.is_empty() { line } else { format!(": {line}") }
}

/// A name as it can be part of a request; the server decodes it.
pub fn encoded(name: &str) -> String {
    utf8_percent_encode(name, ENCODED).to_string()
}

const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'_').remove(b'.').remove(b'~');

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_with_any_name_can_be_asked_about() {
        assert_eq!(encoded("/work space/ä%\n"), "/work%20space/%C3%A4%25%0A");
    }
}

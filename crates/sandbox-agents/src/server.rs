use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sandbox_runtime::Connection;
use serde::de::DeserializeOwned;

use crate::http::{self, Answer};
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

    pub const fn profile(&self) -> &'static DaemonProfile {
        self.profile
    }

    pub(crate) fn get(&self, path: &str, directory: Option<&str>) -> Result<Answer, ServerError> {
        let mut connection = (self.dial)().map_err(ServerError::Dial)?;
        let mut headers =
            vec![("authorization", self.authorization.as_str()), ("accept", "application/json")];
        let encoded;
        if let Some(directory) = directory {
            encoded = utf8_percent_encode(directory, ENCODED).to_string();
            headers.push(("x-opencode-directory", &encoded));
        }
        http::get(connection.as_mut(), path, &headers, self.timeout)
    }

    /// The JSON answer to a GET; any status but 200 is an error.
    pub(crate) fn json<T: DeserializeOwned>(
        &self,
        path: &str,
        directory: Option<&str>,
    ) -> Result<T, ServerError> {
        let answer = self.get(path, directory)?;
        if answer.status != 200 {
            return Err(ServerError::Status { path: path.into(), status: answer.status });
        }
        serde_json::from_slice(&answer.body)
            .map_err(|error| ServerError::Malformed { path: path.into(), problem: error.to_string() })
    }
}

/// What a folder name may not be sent as itself; the server decodes the header.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'_').remove(b'.').remove(b'~');

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_with_any_name_can_be_asked_about() {
        assert_eq!(
            utf8_percent_encode("/work space/ä%\n", ENCODED).to_string(),
            "/work%20space/%C3%A4%25%0A"
        );
    }
}

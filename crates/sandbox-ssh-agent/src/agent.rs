use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use crate::identity::{self, Identity};
use crate::message::{self, Malformed, REQUEST_IDENTITIES};

/// An agent lists its keys at once.
const LISTS_WITHIN: Duration = Duration::from_secs(5);
/// Before a signature its user may have to say yes, or touch a key.
const SIGNS_WITHIN: Duration = Duration::from_mins(2);

/// Why the user's agent gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error("the host has no ssh-agent: SSH_AUTH_SOCK was not set")]
    None,
    #[error("the host's ssh-agent at {path} does not answer: {source}")]
    Gone { path: PathBuf, source: std::io::Error },
    #[error("the host's ssh-agent answers with a malformed message")]
    Malformed,
}

impl From<Malformed> for AgentError {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

/// The user's agent, wherever it is now: its sockets, the newest first.
pub struct Agent<'a>(pub &'a [PathBuf]);

impl Agent<'_> {
    /// Every key the agent has, whatever the rules say of it.
    pub fn identities(&self) -> Result<Vec<Identity>, AgentError> {
        Ok(identity::parse(&self.ask(&[REQUEST_IDENTITIES], LISTS_WITHIN)?)?)
    }

    /// The agent's own answer to a request to sign.
    pub fn sign(&self, request: &[u8]) -> Result<Vec<u8>, AgentError> {
        self.ask(request, SIGNS_WITHIN)
    }

    fn ask(&self, request: &[u8], patience: Duration) -> Result<Vec<u8>, AgentError> {
        let mut outcome = Err(AgentError::None);
        for path in self.0 {
            let gone = |source| AgentError::Gone { path: path.clone(), source };
            match UnixStream::connect(path) {
                Ok(socket) => return exchange(socket, request, patience).map_err(gone),
                // The first is the one its user knows of.
                Err(error) if matches!(outcome, Err(AgentError::None)) => outcome = Err(gone(error)),
                Err(_) => {}
            }
        }
        outcome
    }
}

fn exchange(mut socket: UnixStream, request: &[u8], patience: Duration) -> std::io::Result<Vec<u8>> {
    socket.set_read_timeout(Some(patience))?;
    socket.set_write_timeout(Some(patience))?;
    socket.write_all(&message::framed(request))?;
    message::read(&mut socket)?.ok_or_else(|| std::io::ErrorKind::UnexpectedEof.into())
}

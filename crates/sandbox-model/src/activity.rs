use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What one session of an agent does right now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SessionKind {
    /// Works.
    Busy,
    /// Waits to ask its model provider again; `attempt` counts from 1.
    Retry {
        /// The try that it waits for.
        attempt: u32,
    },
    /// Would work, but waits for an answer to a question or for a permission.
    WaitingForUser,
    /// Has nothing to do: it holds no sandbox.
    Idle,
}

/// One session, as its agent tells it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// What it is at, at the moment of the question.
    pub kind: SessionKind,
    /// The guest folder it works in, where that is known.
    pub directory: Option<PathBuf>,
}

/// Why an agent could not be asked: one sentence for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ActivityError(pub String);

/// Asks an agent what its sessions do.
///
/// Called from one thread, some seconds apart. A call must end on its own (a short timeout per request):
/// what it does not find out in time is an error. An agent whose server was not started in this boot has
/// no sessions, which is no error: an error holds the sandbox for a while.
pub trait Activity: Send {
    /// Every session of every directory the agent works in; idle ones may be left out.
    fn poll(&mut self) -> Result<Vec<Session>, ActivityError>;
}

/// The activity of an agent that has no way to be asked: nothing but its clients holds its sandbox.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoSessions;

impl Activity for NoSessions {
    fn poll(&mut self) -> Result<Vec<Session>, ActivityError> {
        Ok(Vec::new())
    }
}

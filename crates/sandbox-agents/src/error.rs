use std::time::Duration;

use sandbox_runtime::RuntimeError;

/// Why an agent's server could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    #[error("cannot connect to the server: {0}")]
    Dial(#[source] RuntimeError),
    /// Also what a server does that still boots: it accepts and never answers.
    #[error("no answer to {path} within {limit:?}")]
    TimedOut { path: String, limit: Duration },
    #[error("the connection for {path} broke: {source}")]
    Broken {
        path: String,
        #[source]
        source: std::io::Error,
    },
    /// `said` is empty, or begins with a colon.
    #[error("{path} was answered with status {status}{said}")]
    Status { path: String, status: u16, said: String },
    #[error("the answer to {path} is not what it should be: {problem}")]
    Malformed { path: String, problem: String },
}

/// A name that no profile has: a person's slip, or an agent of another version of this program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown agent `{0}`; the agents are {all}", all = crate::names().collect::<Vec<_>>().join(", "))]
pub struct UnknownAgent(pub String);

use sandbox_model::SandboxName;
use sandbox_runtime::RuntimeError;
use sandbox_state::StateError;

/// Why a keeper ended, or never began.
#[derive(Debug, thiserror::Error)]
pub enum KeeperError {
    #[error(transparent)]
    State(#[from] StateError),
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error("sandbox `{name}` could not be stopped")]
    Stop {
        name: SandboxName,
        #[source]
        source: RuntimeError,
    },
}

/// Why a client could not speak with a keeper.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error(transparent)]
    State(#[from] StateError),
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error("the process that watches the sandbox does not answer")]
    Silent,
    #[error("the process that watches the sandbox gave an answer that makes no sense: {0}")]
    Malformed(String),
    /// `log` holds the last lines of its log.
    #[error("the process that watches the sandbox did not start: {problem}")]
    NotStarted { problem: String, log: String },
    #[error("the process that watches the sandbox starts and is gone again, {0} times")]
    Unstable(u32),
}

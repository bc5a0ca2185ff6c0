use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use sandbox_state::StateError;

use crate::{ComposeError, ContextError, NoEngine};

/// What nearly everything here comes to.
pub type Result<T, E = ImageError> = std::result::Result<T, E>;

/// How a tool failed: what it was doing, and the end of what it said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildFailure {
    /// `buildah build`, `mmdebstrap`.
    pub tool: String,
    /// The instruction that was under way.
    pub step: Option<String>,
    /// `exit status 1`, `killed by signal 9`.
    pub status: String,
    /// The last lines of its output, at most 40.
    pub last_lines: Vec<String>,
}

impl fmt::Display for BuildFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ended with {}", self.tool, self.status)?;
        if let Some(step) = &self.step {
            write!(f, " in the step `{step}`")?;
        }
        Ok(())
    }
}

/// Why there is no image. Its text is for people; what a tool said last is in [`ImageError::last_lines`].
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    #[error(transparent)]
    Compose(#[from] ComposeError),
    #[error(transparent)]
    Context(#[from] ContextError),
    #[error(transparent)]
    NoEngine(#[from] NoEngine),
    #[error(transparent)]
    State(#[from] StateError),
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error("{0}")]
    Failed(BuildFailure),
    #[error("{tool} did not finish within {} s", .deadline.as_secs())]
    Deadline { tool: String, deadline: Duration },
    #[error("cancelled")]
    Cancelled,
    #[error("{tool} could not be started: {source}")]
    Start { tool: String, source: std::io::Error },
    #[error("{tool} answered something unexpected: {problem}")]
    Answer { tool: String, problem: String },
    #[error("the image {0} is not in the engine")]
    NoImage(String),
    #[error(
        "the base image {reference} can be neither found nor fetched, and mmdebstrap, which could make one, is not installed"
    )]
    NoBootstrap { reference: String },
    #[error("apt on this machine knows no mirror for {suite}; it knows: {known}")]
    NoMirror { suite: String, known: String },
    #[error("the host's certificates cannot be used: {path}: {problem}")]
    HostCa { path: PathBuf, problem: String },
}

impl ImageError {
    /// The last lines of the tool that failed, where one did.
    pub fn last_lines(&self) -> &[String] {
        match self {
            Self::Failed(failure) => &failure.last_lines,
            _ => &[],
        }
    }
}

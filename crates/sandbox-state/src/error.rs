use std::path::PathBuf;

/// Why something on disk cannot be read, written or held. Each path is the one that is wrong.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error("{path}: {problem}")]
    Malformed { path: PathBuf, problem: String },
    #[error("{path} has version {version}, and this program knows {known}")]
    Newer { path: PathBuf, version: u32, known: u32 },
    /// Someone else could change what we trust.
    #[error("{path} {problem}")]
    Unsafe { path: PathBuf, problem: String },
    #[error("neither {variable} nor HOME is set to an absolute path")]
    NoHome { variable: &'static str },
    #[error("{path} is held by {holder}")]
    Held { path: PathBuf, holder: String },
}

use std::path::PathBuf;
use std::time::Duration;

use sandbox_state::StateError;

/// Why there is no runtime. A file is used only where its SHA-256 is the pinned one, wherever it is from.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeInstallError {
    #[error("no microsandbox runtime is known for the processor `{arch}`; x86_64 is")]
    NoPins { arch: String },
    #[error("{source_name} has a `{file}` that is not the pinned one: SHA-256 wanted {wanted}, got {got}")]
    WrongFile { source_name: String, file: &'static str, wanted: String, got: String },
    #[error("{source_name} has no file `{file}`")]
    Incomplete { source_name: String, file: &'static str },
    #[error("{path} is neither a folder nor a zip, wheel or tar.gz archive")]
    NotAnArchive { path: PathBuf },
    #[error("{path} cannot be unpacked: {problem}")]
    BadArchive { path: PathBuf, problem: String },
    #[error("{url} cannot be fetched: {problem}")]
    Download { url: String, problem: String },
    #[error(
        "pip is not installed: none of pip3, pip and `python3 -m pip` works (on Debian and Ubuntu it is the package python3-pip)"
    )]
    PipMissing,
    /// `output` holds pip's last lines.
    #[error("`{command}` failed ({status}):\n{output}")]
    PipFailed { command: String, status: String, output: String },
    #[error("`{command}` did not end within {} s; its last lines:\n{output}", limit.as_secs())]
    PipTooSlow { command: String, limit: Duration, output: String },
    #[error("the runtime could not be had from any source:{}", listed(.0))]
    NoSource(Vec<(String, Self)>),
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error(transparent)]
    State(#[from] StateError),
}

fn listed(attempts: &[(String, RuntimeInstallError)]) -> String {
    use std::fmt::Write;

    if attempts.is_empty() {
        return " none is configured".into();
    }
    attempts.iter().fold(String::new(), |mut text, (source, error)| {
        let _ = write!(text, "\n{source}: {error}");
        text
    })
}

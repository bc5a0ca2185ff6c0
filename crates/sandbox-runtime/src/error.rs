use std::path::PathBuf;

use sandbox_model::{ImageRef, SandboxName, Status};

/// Facts about what went wrong. The program adds hints; nothing here names a command of ours.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    #[error("there is no sandbox `{0}`")]
    NoSuchSandbox(SandboxName),
    #[error("there is no session {session} in sandbox `{name}`")]
    NoSuchSession { name: SandboxName, session: u32 },
    #[error("a sandbox `{0}` already exists")]
    Exists(SandboxName),
    #[error("sandbox `{name}` is {status}, which does not allow to {action}")]
    WrongStatus { name: SandboxName, status: Status, action: &'static str },
    #[error("image `{0}` is not loaded")]
    NoSuchImage(ImageRef),
    #[error("image content {0} is not in the store")]
    NoSuchContent(sandbox_model::Digest),
    #[error("image archive: {0}")]
    BadArchive(String),
    /// `log` holds the last lines of the console and of the machine.
    #[error("sandbox `{name}` did not boot: {problem}")]
    BootFailed { name: SandboxName, problem: String, log: String },
    #[error("sandbox `{name}` cannot start without the value of its secret {secret}")]
    NoSecretValue { name: SandboxName, secret: String },
    #[error("the command could not be run in the sandbox: {message}")]
    ExecFailed { code: i32, message: String },
    #[error("{command} in the sandbox said more than {mib} MiB")]
    TooMuchOutput { command: &'static str, mib: usize },
    #[error("{command} in the sandbox did not end within {seconds} s")]
    NotInTime { command: &'static str, seconds: u64 },
    #[error("the sandbox `{0}` went away while it was in use")]
    Lost(SandboxName),
    #[error("the sandbox runs under version {running} of this program, which speaks another protocol")]
    OtherVersion { running: String },
    #[error(
        "the records of {runtime} were written by a newer version of it than {version}, which is used here"
    )]
    NewerRecords { runtime: &'static str, version: &'static str },
    #[error("`{program}` is not installed or not usable: {problem}")]
    MissingProgram { program: String, problem: String },
    /// A program that did not end by itself and was ended; `call` is how it was called, in short.
    #[error("`{call}` did not answer within {seconds} seconds and was ended")]
    NoAnswer { call: String, seconds: u64 },
    #[error("{path}: {problem}")]
    BadRecord { path: PathBuf, problem: String },
    #[error("{path} has version {version}, and this program knows {known}")]
    NewerRecord { path: PathBuf, version: u32, known: u32 },
    /// Someone else could change it, or alone can read it.
    #[error("{path} {problem}")]
    Unsafe { path: PathBuf, problem: String },
    /// What a sandbox is made from is gone or something else: its home volume, its checkout, a mount.
    #[error("{part} of sandbox `{name}` {problem}: {path}")]
    BadPart { name: SandboxName, part: String, path: PathBuf, problem: &'static str },
    #[error("{0}")]
    Unsupported(&'static str),
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error("{context}")]
    Other {
        context: String,
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
}

impl RuntimeError {
    /// A record is there that nobody can read: nothing is known of what it is about, but that it exists.
    pub fn is_unreadable_record(&self) -> bool {
        matches!(self, Self::BadRecord { .. } | Self::NewerRecord { .. } | Self::Unsafe { .. })
    }

    /// Something without a variant of its own and without a cause; `context` is for people.
    pub fn other(context: impl Into<String>) -> Self {
        Self::Other { context: context.into(), source: None }
    }
}

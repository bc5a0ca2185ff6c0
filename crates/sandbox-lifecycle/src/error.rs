use std::net::SocketAddr;
use std::path::PathBuf;

use sandbox_agents::UnknownAgent;
use sandbox_image::ImageError;
use sandbox_model::{AgentName, ImageRef, SandboxName, Status};
use sandbox_runtime::RuntimeError;
use sandbox_state::StateError;

use crate::up::port_holder::PortHolder;
use crate::worktree::Held;

/// What nearly every use case comes to.
pub type Result<T, E = LifecycleError> = std::result::Result<T, E>;

/// Facts about what went wrong. The program adds hints.
#[derive(Debug, thiserror::Error)]
pub enum LifecycleError {
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    #[error(transparent)]
    State(#[from] StateError),
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error(transparent)]
    UnknownAgent(#[from] UnknownAgent),
    #[error("the runner image could not be made ready")]
    Image(#[from] ImageError),
    #[error("the checkout {0} is gone")]
    CheckoutGone(PathBuf),
    /// Paused, or a status this version does not know: protected.
    #[error("sandbox `{name}` is {status} and takes no clients")]
    NotUsable { name: SandboxName, status: Status },
    #[error("sandbox `{0}` is running")]
    Running(SandboxName),
    #[error("sandbox `{0}` was stopped while its user was asked")]
    EndedMeanwhile(SandboxName),
    #[error("there is no sandbox `{0}`")]
    NoSuchSandbox(SandboxName),
    #[error("there is no image `{0}`")]
    NoSuchImage(ImageRef),
    #[error("image `{image}` is used by {}", names(sandboxes))]
    ImageInUse { image: ImageRef, sandboxes: Vec<SandboxName> },
    /// This computer has no such address, say.
    #[error("port {address} cannot be published: {problem}")]
    Port { address: SocketAddr, problem: String },
    #[error("port {address} cannot be published: {holder}")]
    PortTaken { address: SocketAddr, holder: Box<PortHolder> },
    #[error("port {address} cannot be published: ports below {first} are root's on this computer")]
    PrivilegedPort { address: SocketAddr, first: u16 },
    #[error("{source_path}, which is mounted at {target}, is not there")]
    MountSource { source_path: PathBuf, target: String },
    #[error("the home volume {path} cannot be made or used: {problem}")]
    HomeVolume { path: PathBuf, problem: String },
    #[error("the background process that watches sandbox `{name}` did not start: {problem}")]
    Keeper { name: SandboxName, problem: String },
    /// `log` holds the last lines of the server's log.
    #[error("the server of {agent} does not answer after {seconds} s: {problem}")]
    Daemon { agent: AgentName, seconds: u64, problem: String, log: String },
    /// `log` holds the last lines of the engine's log.
    #[error("docker in the sandbox did not start within {seconds} s: {problem}")]
    Docker { seconds: u64, problem: String, log: String },
    /// It sleeps, and would wake with a secret that is not given any more, or for other hosts.
    #[error("sandbox `{0}` sleeps with secrets that are not given any more, or are for other hosts by now")]
    SecretWithdrawn(SandboxName),
    #[error("{runtime} cannot hand an ssh-agent to sandbox `{name}`")]
    NoSshAgent { name: SandboxName, runtime: &'static str },
    #[error("the configuration of {agent} could not be copied into the sandbox: {problem}")]
    Provision { agent: AgentName, problem: String },
    #[error("the worktree `{name}` cannot be used: {problem}")]
    Worktree { name: String, problem: String },
    #[error("there is no worktree `{0}`")]
    NoSuchWorktree(String),
    #[error("the worktree `{name}` has {held}")]
    WorktreeHolds { name: String, held: Held },
    #[error("git cannot say what only the worktree `{name}` has: {problem}")]
    WorktreeUnknown { name: String, problem: String },
    #[error("the server of {agent} cannot be asked: {problem}")]
    Server { agent: AgentName, problem: String },
    #[error("{agent} has no server in the sandbox")]
    NoServer { agent: AgentName },
    #[error("{path}: {problem}")]
    Snippet { path: PathBuf, problem: String },
}

fn names(sandboxes: &[SandboxName]) -> String {
    let quoted: Vec<String> = sandboxes.iter().map(|name| format!("sandbox `{name}`")).collect();
    quoted.join(", ")
}

/// An error with everything that caused it, in one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

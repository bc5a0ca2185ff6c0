//! The nouns of agents-sandbox. Pure data and pure functions: nothing here reads a file, a clock or
//! the environment.

mod activity;
mod agent;
mod destination;
mod digest;
mod duration;
mod exec;
mod kept;
mod names;
mod network;
mod port;
mod proxy;
mod recipe;
mod secret;
mod size;
mod slug;
mod spec;
mod ssh_agent;
mod status;

pub use activity::{Activity, ActivityError, NoSessions, Session, SessionKind};
pub use agent::AgentName;
pub use destination::{DESTINATION_FORMS, Destination, HOST_NAMES, InvalidDestination, Target};
pub use digest::{Digest, InvalidDigest};
pub use duration::{InvalidDuration, format_duration, parse_duration};
pub use exec::{ExecSpec, ExecUser, ExitStatus, TermSize};
pub use kept::{Keep, KeptSession, SessionEnd};
pub use names::{ImageRef, InvalidName, SandboxName, VolumeName};
pub use network::{NetworkPolicy, NetworkProfile, UnknownProfile};
pub use port::{InvalidPort, PortForward};
pub use proxy::{
    InvalidNoProxy, InvalidProxy, InvalidVariable, NO_PROXY_FORMS, NoProxy, PROXY_FORMS, Proxies,
    ProxyScheme, ProxyUrl,
};
pub use recipe::AgentRecipe;
pub use secret::{
    CREDENTIAL_HEADERS, InvalidSecretHost, SECRET_HOST_FORMS, SecretHost, SecretSpec, SecretValue,
    SecretValues, holding, secret_environment,
};
pub use size::{ByteSize, InvalidSize};
pub use slug::{CheckoutSlug, RepoSlug, folder_part, hash_part, repository_name};
pub use spec::{ExtraMount, HomeDisk, Resources, SandboxSpec, WorkspaceMount, labels};
pub use ssh_agent::{
    AgentRules, GUEST_SSH_AGENT, GUEST_SSH_AGENT_ASIDE, SSH_AGENT_VARIABLE, ssh_agent_environment,
};
pub use status::Status;

/// Where the agent's home is inside every sandbox.
pub const GUEST_HOME: &str = "/home/dev";
/// Where the checkout is inside every sandbox.
pub const GUEST_WORKSPACE: &str = "/workspace";
/// The user that agents run as inside every sandbox.
pub const GUEST_USER: &str = "dev";

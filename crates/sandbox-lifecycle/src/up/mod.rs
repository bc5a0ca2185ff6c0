use sandbox_model::{AgentName, SandboxName};
use sandbox_runtime::RuntimeError;

use crate::{Context, Lease, LifecycleError, Result, UpRequest};

/// A running sandbox that stays up for as long as this value lives.
#[derive(Debug)]
pub struct Up {
    pub name: SandboxName,
    pub agent: AgentName,
    pub lease: Lease,
    /// Another word for every boot.
    pub boot_id: String,
    /// This call booted it.
    pub started: bool,
    /// The guest folder that matches the one where the command was typed.
    pub guest_dir: String,
    /// The machine runs without hardware virtualization.
    pub emulated: bool,
}

/// Brings the sandbox of a checkout and agent up and attaches to it.
///
/// Makes what is missing (image, home volume, sandbox), boots it, and starts its keeper. Any number of
/// calls at once, from any number of processes, end with one sandbox. Blocks for as long as it takes;
/// progress goes to the context's reporter.
pub fn up(context: &Context<'_>, request: &UpRequest) -> Result<Up> {
    let name = request.target().name();
    context.reporter.verbose(&format!("bringing up {name}"));
    Err(LifecycleError::Runtime(RuntimeError::NoSuchSandbox(name)))
}

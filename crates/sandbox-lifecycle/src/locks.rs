use sandbox_state::{Lock, LockMode};

use crate::{Context, Result, Target};

/// The lock under which a sandbox is made, started, changed or removed. A wait shows as a step that names
/// the holder.
pub(crate) fn boot_lock(context: &Context<'_>, target: &Target, purpose: &str) -> Result<Lock> {
    let path = context.layout.boot_lock(&target.checkout, target.agent);
    let mut waiting = None;
    let lock = Lock::take(&path, LockMode::Exclusive, purpose, |holder| {
        waiting = Some(context.reporter.begin(&format!("waiting for {holder}")));
    })?;
    if let Some(step) = waiting {
        step.finish(None);
    }
    Ok(lock)
}

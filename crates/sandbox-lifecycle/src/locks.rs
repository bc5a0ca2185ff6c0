use std::path::Path;

use sandbox_state::{Lock, LockMode, StateError};

use crate::{Context, Result, Target, holders};

/// What the lock of all images is for, as whoever waits for it reads it.
const IMAGES: &str = "the images";

/// What to do about a lock that another holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// Wait for it, as a step that names the holder.
    Wait,
    /// Do without.
    None,
}

/// The lock under which a sandbox is made, started, changed or removed. A wait shows as a step that names
/// the holder and what it holds. Nobody holds one while a person is asked.
pub fn boot_lock(context: &Context<'_>, target: &Target, purpose: &str) -> Result<Lock> {
    let path = context.layout.boot_lock(&target.checkout, target.agent);
    wait(context, &path, LockMode::Exclusive, purpose, &sandbox(target))
}

/// Held while the agent's server is started, which can take minutes: who ends the sandbox or looks at it does
/// not wait for that.
pub fn server_lock(context: &Context<'_>, target: &Target, purpose: &str) -> Result<Lock> {
    let path = context.layout.sandbox_state(&target.checkout, target.agent).daemon_lock();
    wait(context, &path, LockMode::Exclusive, purpose, &format!("the server of {}", target.agent))
}

/// `None` where another holds it and there is no patience.
pub fn boot_lock_if(
    context: &Context<'_>,
    target: &Target,
    purpose: &str,
    patience: Patience,
) -> Result<Option<Lock>> {
    let path = context.layout.boot_lock(&target.checkout, target.agent);
    take(context, &path, LockMode::Exclusive, purpose, &sandbox(target), patience)
}

/// Held while an image is used to make something: nobody removes one meanwhile. Taken after a boot lock,
/// never before one.
pub fn use_images(context: &Context<'_>, purpose: &str) -> Result<Lock> {
    wait(context, &context.layout.image_store_lock(), LockMode::Shared, purpose, IMAGES)
}

/// Held while images are removed. No boot lock is taken under it.
pub fn remove_images(context: &Context<'_>, purpose: &str, patience: Patience) -> Result<Option<Lock>> {
    take(context, &context.layout.image_store_lock(), LockMode::Exclusive, purpose, IMAGES, patience)
}

fn sandbox(target: &Target) -> String {
    format!("sandbox {}", target.name())
}

fn take(
    context: &Context<'_>,
    path: &Path,
    mode: LockMode,
    purpose: &str,
    what: &str,
    patience: Patience,
) -> Result<Option<Lock>> {
    if patience == Patience::Wait {
        return wait(context, path, mode, purpose, what).map(Some);
    }
    match Lock::try_take(path, mode, purpose) {
        Ok(lock) => Ok(Some(lock)),
        Err(StateError::Held { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn wait(context: &Context<'_>, path: &Path, mode: LockMode, purpose: &str, what: &str) -> Result<Lock> {
    let mut waiting = None;
    let lock = Lock::take(path, mode, purpose, |written| {
        // Users of a shared lock do not write their name into it, but the system knows them.
        let holders = holders::of(path);
        let who = if holders.is_empty() { written.to_string() } else { holders.join(", ") };
        // The holder first: a narrow terminal cuts the end off.
        waiting = Some(context.reporter.begin(&format!("waiting for {who} to let go of {what}")));
    })?;
    if let Some(step) = waiting {
        step.finish(None);
    }
    Ok(lock)
}

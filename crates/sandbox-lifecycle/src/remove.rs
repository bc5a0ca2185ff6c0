use sandbox_model::{ByteSize, SandboxName};

use crate::locks::boot_lock;
use crate::stop::{GRACE, look};
use crate::{Context, LifecycleError, Result, Target, leftovers, legacy};

/// What became of a sandbox that was to be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Removed {
    /// It was running and had to be stopped first.
    pub was_running: bool,
    /// It slept: its saved memory went with it, and what ran in it.
    pub forgotten: Option<ByteSize>,
}

/// Removes a sandbox and its root disk. Its record and its home volume stay, so that the next run makes it
/// again with the same home; what else stays, and why, says `leftovers::clear`.
///
/// A running one is an error ([`LifecycleError::Running`]) unless `force`, which stops it first. A name
/// that does not exist is [`LifecycleError::NoSuchSandbox`]. One whose record is broken can be removed.
pub fn remove(context: &Context<'_>, name: &SandboxName, force: bool) -> Result<Removed> {
    let mut forgotten = None;
    let target = match context.runtime.inspect(name) {
        Ok(Some(info)) => {
            forgotten = info.saved_memory;
            Target::of(&info.spec).or_else(|| Target::from_name(name))
        }
        Ok(None) => return Err(LifecycleError::NoSuchSandbox(name.clone())),
        Err(error) if error.is_unreadable_record() => Target::from_name(name),
        Err(error) => return Err(error.into()),
    };
    let _lock = target.as_ref().map(|target| boot_lock(context, target, "remove")).transpose()?;
    let was_running = match look(context, name) {
        Ok(found) => found.was_running,
        // Nobody can say what it does; the runtime refuses if it runs.
        Err(LifecycleError::Runtime(error)) if error.is_unreadable_record() => false,
        Err(error) => return Err(error),
    };
    if was_running && !force {
        return Err(LifecycleError::Running(name.clone()));
    }
    if was_running {
        let step = context.reporter.begin("stopping the sandbox");
        context.runtime.stop(name, GRACE)?;
        step.finish(None);
    }
    context.runtime.remove(name)?;
    // A task's sandbox has the labels of the one that it works for, and no files of its own.
    if let Some(target) = target.filter(|target| legacy::names(target).contains(name))
        && let Err(error) = leftovers::clear(context, &target)
    {
        context.reporter.warning(&format!("{name} is removed, and not all of its records: {error}"));
    }
    Ok(Removed { was_running, forgotten: forgotten.filter(|_| !was_running) })
}

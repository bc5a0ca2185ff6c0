use std::io::ErrorKind;
use std::time::Duration;

use sandbox_model::{ByteSize, SandboxName, Status};
use sandbox_runtime::{Slept, StopOutcome};
use sandbox_wire::KeeperStatus;

use crate::legacy::sandbox_name;
use crate::locks::boot_lock;
use crate::{Context, Result, Target, leftovers};

/// How long the guest has to end its processes.
pub(crate) const GRACE: Duration = Duration::from_secs(20);

/// What became of a sandbox that was to be stopped or killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// There was one.
    pub existed: bool,
    /// It was running (or booting, or paused) and is not any more.
    pub was_running: bool,
    /// Its memory is saved: the next start goes on where it was.
    pub asleep: bool,
    /// The guest did not end within its grace and was powered off.
    pub forced: bool,
    /// The sandbox and its record were removed as well.
    pub removed: bool,
    /// It ended without being told to: before, or while it was being stopped.
    pub crashed: bool,
    /// It slept, and its saved memory was dropped.
    pub forgotten: Option<ByteSize>,
}

impl Ended {
    /// One that is there, and of which nobody can say what it does.
    pub(crate) const UNKNOWN: Self = Self {
        existed: true,
        was_running: true,
        asleep: false,
        forced: false,
        removed: false,
        crashed: false,
        forgotten: None,
    };
}

/// Stops a sandbox gracefully; of one that sleeps the memory is dropped. `remove_state` also removes the sandbox and its record, also when it was at
/// rest already; the home volume stays. Harmless when there is none.
pub fn stop(context: &Context<'_>, target: &Target, remove_state: bool) -> Result<Ended> {
    let _lock = boot_lock(context, target, "stop")?;
    let name = sandbox_name(context, target)?;
    let mut ended = look(context, &name)?;
    if ended.was_running {
        let step = context.reporter.begin("stopping the sandbox");
        let outcome = context.runtime.stop(&name, GRACE)?;
        ended.was_running = outcome != StopOutcome::AlreadyAtRest;
        ended.forced = outcome == StopOutcome::Forced;
        ended.crashed = look(context, &name)?.crashed;
        step.finish(ended.forced.then_some("it did not end in time and was powered off"));
    } else if ended.existed {
        end_half(context, &name, &mut ended)?;
        ended.forgotten = context.runtime.forget_memory(&name)?;
    }
    if remove_state {
        ended.removed = remove_with_state(context, target, &name)? || ended.existed;
    }
    Ok(ended)
}

/// Ends a sandbox by its own rule: asleep where it was started for that and the runtime can, else stopped.
/// Harmless when there is none.
pub fn rest(context: &Context<'_>, target: &Target) -> Result<Ended> {
    let _lock = boot_lock(context, target, "stop")?;
    let name = sandbox_name(context, target)?;
    let mut ended = look(context, &name)?;
    if ended.was_running {
        let step = context.reporter.begin("stopping the sandbox");
        let slept = go_to_rest(context, &name)?;
        ended.was_running = slept.outcome != StopOutcome::AlreadyAtRest;
        ended.asleep = slept.outcome == StopOutcome::Asleep;
        ended.forced = slept.outcome == StopOutcome::Forced;
        ended.crashed = look(context, &name)?.crashed;
        step.finish(None);
        if let Some(reason) = slept.why_not {
            context.reporter.info(&format!("its memory is not saved: {reason}"));
        }
    } else {
        end_half(context, &name, &mut ended)?;
    }
    Ok(ended)
}

/// What crashed may have a machine all the same, which nobody can use: one whose start was killed half-way.
fn end_half(context: &Context<'_>, name: &SandboxName, ended: &mut Ended) -> Result<()> {
    if ended.crashed {
        ended.forced = context.runtime.stop(name, GRACE)? == StopOutcome::Forced;
        // It was not in use, and it was not at rest either.
        ended.was_running = ended.forced;
        ended.crashed = !ended.forced;
    }
    Ok(())
}

fn go_to_rest(context: &Context<'_>, name: &SandboxName) -> Result<Slept> {
    let may = context.runtime.inspect(name)?.is_some_and(|info| info.spec.sleep);
    if may {
        Ok(context.runtime.sleep(name, None, GRACE)?)
    } else {
        Ok(context.runtime.stop(name, GRACE)?.into())
    }
}

pub(crate) fn look(context: &Context<'_>, name: &SandboxName) -> Result<Ended> {
    let info = context.runtime.inspect(name)?;
    Ok(Ended {
        existed: info.is_some(),
        crashed: info.as_ref().is_some_and(|info| info.status == Status::Crashed),
        was_running: info.is_some_and(|info| !info.status.is_at_rest()),
        asleep: false,
        forced: false,
        removed: false,
        forgotten: None,
    })
}

/// Removes the sandbox at rest, and what is recorded of it; says whether there was a record. The caller
/// holds the boot lock. The home volume becomes nobody's.
pub(crate) fn remove_with_state(context: &Context<'_>, target: &Target, name: &SandboxName) -> Result<bool> {
    context.runtime.remove(name)?;
    let files = context.layout.sandbox_state(&target.checkout, target.agent);
    let mut recorded = false;
    for path in [files.daemon(), files.state()] {
        match fs_err::remove_file(path) {
            Ok(()) => recorded = true,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
    }
    if let Err(error) = leftovers::clear(context, target) {
        context.reporter.warning(&format!("{name} is removed, and not all of its records: {error}"));
    }
    Ok(recorded)
}

/// What the keeper says about a sandbox; `None` when no keeper answers.
pub fn keeper_status(context: &Context<'_>, target: &Target) -> Option<KeeperStatus> {
    let files = context.layout.sandbox_state(&target.checkout, target.agent).keeper();
    sandbox_keeper::status(&files).ok().flatten()
}

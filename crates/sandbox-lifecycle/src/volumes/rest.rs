use std::ops::ControlFlow;
use std::time::Duration;

use sandbox_model::{SandboxName, VolumeName};

use super::VolumeError;
use crate::up::{InUse, held, life};
use crate::{Change, Class, Context, Declined, RunningChoice, RunningQuestion, Target, sandbox_name};

const GRACE: Duration = Duration::from_secs(20);

/// Whether the sandbox that writes to a volume may be stopped, with all that the answer rests on.
pub struct Question {
    sandbox: SandboxName,
    volume: VolumeName,
    held: InUse,
    /// Another word for every boot of the sandbox.
    life: String,
}

impl Question {
    fn covers(&self, now: &Self) -> bool {
        self.volume == now.volume && self.life == now.life && self.held.covers(&now.held)
    }

    /// Asks. Anything but a yes is an error; a person is asked while nobody holds a lock.
    pub fn ask(&self, context: &Context<'_>) -> Result<(), VolumeError> {
        let difference = format!("{} → a new volume", self.volume);
        let change = Change { setting: "home volume", class: Class::Recreate, difference, fixed: false };
        let (sandbox, held) = (&self.sandbox, self.held.reason.as_str());
        match context.reporter.decisions().running(&RunningQuestion { sandbox, changes: &[change], held }) {
            RunningChoice::Proceed => Ok(()),
            RunningChoice::Quit => Err(Declined::error().into()),
            RunningChoice::Keep => {
                let now = context.runtime.inspect(sandbox)?;
                // It may have come to rest while a person thought; it is left alone all the same.
                Err(if now.is_some_and(|info| !info.status.is_at_rest()) {
                    VolumeError::Running(sandbox.clone())
                } else {
                    Declined::error().into()
                })
            }
        }
    }
}

/// Stops the sandbox that writes to a volume, where nobody uses it or the user wants it all the same: `agreed` is what
/// had a yes. The caller holds the boot lock; it gives it back to have a person asked.
pub fn make_rest(
    context: &Context<'_>,
    target: &Target,
    name: &SandboxName,
    volume: &VolumeName,
    agreed: Option<&Question>,
) -> Result<ControlFlow<Question>, VolumeError> {
    // A task's, say: it is somebody else's to end.
    if *name != sandbox_name(context, target)? {
        return Err(VolumeError::Running(name.clone()));
    }
    if let Some(held) = held(context, target) {
        let life = life(context, name)?;
        let now = Question { sandbox: name.clone(), volume: volume.clone(), held, life };
        if !agreed.is_some_and(|agreed| agreed.covers(&now)) {
            if context.reporter.decisions().takes_time() {
                return Ok(ControlFlow::Break(now));
            }
            now.ask(context)?;
        }
    }
    let step = context.reporter.begin("stopping the sandbox");
    context.runtime.stop(name, GRACE)?;
    step.finish(None);
    Ok(ControlFlow::Continue(()))
}

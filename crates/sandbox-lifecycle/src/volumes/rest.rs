use std::time::Duration;

use sandbox_model::{SandboxName, VolumeName};

use super::VolumeError;
use crate::up::held;
use crate::{Change, Class, Context, Declined, RunningChoice, RunningQuestion, Target, sandbox_name};

const GRACE: Duration = Duration::from_secs(20);

/// Stops the sandbox that writes to a volume, where nobody uses it or the user wants it all the same. The
/// caller holds the boot lock.
pub fn make_rest(
    context: &Context<'_>,
    target: &Target,
    name: &SandboxName,
    volume: &VolumeName,
) -> Result<(), VolumeError> {
    // A task's, say: it is somebody else's to end.
    if *name != sandbox_name(context, target)? {
        return Err(VolumeError::Running(name.clone()));
    }
    if let Some(held) = held(context, target) {
        let (from, to) = (volume.to_string(), "a new volume".into());
        let change = Change { setting: "home volume", class: Class::Recreate, from, to, fixed: false };
        let question = RunningQuestion { sandbox: name, changes: &[change], held: &held };
        match context.reporter.decisions().running(&question) {
            RunningChoice::Keep => return Err(VolumeError::Running(name.clone())),
            RunningChoice::Quit => return Err(Declined::error().into()),
            RunningChoice::Proceed => {}
        }
    }
    let step = context.reporter.begin("stopping the sandbox");
    context.runtime.stop(name, GRACE)?;
    step.finish(None);
    Ok(())
}

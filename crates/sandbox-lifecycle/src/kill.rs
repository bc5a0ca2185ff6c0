use sandbox_runtime::RuntimeError;

use crate::legacy::sandbox_name;
use crate::locks::boot_lock;
use crate::stop::{look, remove_with_state};
use crate::{Context, Ended, LifecycleError, Result, Target};

/// Powers a sandbox off at once; its disks may be left as a power cut leaves them. `remove_state` as in
/// [`crate::stop`]. Harmless when there is none.
///
/// Waits for nobody: a boot that hangs is what it is for. Only the removal takes its turn.
pub fn kill(context: &Context<'_>, target: &Target, remove_state: bool) -> Result<Ended> {
    let name = sandbox_name(context, target)?;
    let mut ended = match look(context, &name) {
        // A runtime that hangs is what it is for, too: what nobody knows is not at rest.
        Err(LifecycleError::Runtime(RuntimeError::NoAnswer { .. })) => Ended::UNKNOWN,
        seen => seen?,
    };
    // What crashed may have a machine all the same.
    if ended.was_running || ended.crashed {
        context.runtime.kill(&name)?;
    }
    if remove_state {
        let _lock = boot_lock(context, target, "kill")?;
        // Whoever waited for the boot may have started it again meanwhile.
        if look(context, &name)?.was_running {
            context.runtime.kill(&name)?;
        } else {
            ended.forgotten = context.runtime.inspect(&name)?.and_then(|info| info.saved_memory);
        }
        ended.removed = remove_with_state(context, target, &name)? || ended.existed;
    }
    Ok(ended)
}

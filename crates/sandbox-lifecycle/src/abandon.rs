use sandbox_model::{SandboxName, Status};
use sandbox_runtime::Runtime;
use sandbox_state::Layout;

use crate::{Result, Target, holders, legacy};

/// Ends the boot that this process is waiting for, when its user gives up; says whether there was one.
///
/// Without it the boot would go on, and the sandbox run with nobody who watches over it. May be called
/// from another thread than the one that waits, whose call then fails.
pub fn abandon(layout: &Layout, runtime: &dyn Runtime, target: &Target) -> Result<bool> {
    let starts = |name: &SandboxName| {
        let info = runtime.inspect(name).ok().flatten();
        info.is_some_and(|info| info.status == Status::Starting)
    };
    let Some(name) = legacy::names(target).into_iter().find(starts) else { return Ok(false) };
    // Whoever boots a sandbox holds this lock until somebody watches it.
    let lock = layout.boot_lock(&target.checkout, target.agent);
    let me = std::process::id();
    // Before Linux 5.14 a process that knows secrets, whose files in /proc are root's, is not told about itself.
    let ours = holders::holds(me, &lock) || holders::signed(me, &lock);
    if ours {
        runtime.call_off(&name)?;
    }
    Ok(ours)
}

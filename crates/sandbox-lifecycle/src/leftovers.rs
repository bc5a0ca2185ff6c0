//! What a sandbox that is gone leaves in the state folder.

use std::io::{ErrorKind, Result as IoResult};
use std::path::Path;
use std::time::{Duration, Instant};

use fs_err as fs;
use sandbox_state::{KeeperFiles, Lock, LockMode, is_locked};

use crate::{Context, Result, Target, legacy};

/// How long a keeper may take to see that its sandbox is gone, and to go.
const ENDS_WITHIN: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Clears away what the files of a removed sandbox were for. The caller holds the boot lock, so that nobody makes it
/// anew meanwhile.
///
/// This stays, on purpose:
/// - `state.yaml` and `provision.json`: which home volume is the target's, which version of the agent is pinned, and what
///   was copied into that home. The next run makes the sandbox with it. Where there is no record any more, the other
///   says nothing, and the whole folder goes;
/// - `approvals.json`, in the folder above: the user's word about files of the project, which are still there. It opens
///   nothing by itself;
/// - what is in `locks/`: whoever waits for such a lock has its file open, and would get one that nobody else sees;
/// - `roots/` and `writable/`: a folder that a sandbox could write once is to be distrusted for ever;
/// - all of it where the keeper does not go: it still writes there. The next removal, or `prune`, gets it.
pub(crate) fn clear(context: &Context<'_>, target: &Target) -> Result<()> {
    // One of an earlier version's name has the same folder.
    let names = legacy::names(target);
    let gone = names.iter().all(|name| matches!(context.runtime.inspect(name), Ok(None)));
    let files = context.layout.sandbox_state(&target.checkout, target.agent);
    if !gone || !keeper_goes(&files.keeper())? {
        return Ok(());
    }
    if !files.state().try_exists()? {
        absent_is_fine(fs::remove_dir_all(&files.dir))?;
        if let Some(checkout) = files.dir.parent() {
            // Another agent's folder keeps it, and what was approved.
            let _ = fs::remove_dir(checkout);
        }
        return Ok(());
    }
    let keeper = files.keeper();
    for path in [&files.daemon(), &files.network_told(), &keeper.socket, &keeper.log, &keeper.ssh_agent_log] {
        absent_is_fine(fs::remove_file(path))?;
    }
    absent_is_fine(fs::remove_dir_all(files.claims()))?;
    // Whoever still waits for the server of a sandbox that is gone is left to find that out.
    remove_free_lock(&files.daemon_lock())?;
    absent_is_fine(fs::remove_file(&keeper.lock))?;
    Ok(())
}

/// Whether there is no keeper, at the latest after a moment.
fn keeper_goes(files: &KeeperFiles) -> Result<bool> {
    let deadline = Instant::now() + ENDS_WITHIN;
    if is_locked(&files.lock)? {
        // Asked, it looks at its sandbox at once.
        let _ = sandbox_keeper::status(files);
    }
    while is_locked(&files.lock)? {
        if Instant::now() >= deadline {
            return Ok(false);
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    Ok(true)
}

fn remove_free_lock(path: &Path) -> Result<()> {
    if path.try_exists()?
        && let Ok(lock) = Lock::try_take(path, LockMode::Exclusive, "remove")
    {
        absent_is_fine(fs::remove_file(lock.path()))?;
    }
    Ok(())
}

fn absent_is_fine(done: IoResult<()>) -> IoResult<()> {
    match done {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

//! Mappings of `home` that are run after a boot.

use sandbox_model::{ExecSpec, ExecUser, GUEST_HOME, TermSize};
use sandbox_state::{ProjectState, ProvisionRecord, read_record, write_record};

use super::assembly::Assembly;
use crate::locks::boot_lock;
use crate::{Context, Result, Up, UpRequest, host_path};

/// The kernel knows what to do with an executable; anything else is a script, and its first line may say
/// whose.
///
/// `$1` is the file in the home, `$2` the home of `dev` for root, who has another.
const RUN: &str = r#"file=${2:-$HOME}/$1
[ -x "$file" ] && exec "$file"
read -r line <"$file"
case $line in '#!'*) exec ${line#'#!'} "$file" ;; esac
exec /bin/sh "$file""#;

/// One hook, ready to be run on the user's terminal.
#[derive(Debug)]
pub struct StartupHook {
    /// In the guest's home.
    pub target: String,
    /// What runs it, with its user, folder and terminal.
    pub command: ExecSpec,
}

/// The hooks that this boot has not had yet, in the order of their targets. Each boot's are given out once,
/// to whoever asks first; a hook that is added later waits for the next boot. A guest that wakes does not boot:
/// what its hooks started goes on. With them comes what else is done once a boot: the checkout shows under its host
/// path. Worktrees that were made since are seen to whenever there are some.
pub fn startup_hooks(
    context: &Context<'_>,
    request: &UpRequest,
    up: &Up,
    assembly: &Assembly,
    tty: Option<TermSize>,
) -> Result<Vec<StartupHook>> {
    let target = request.target();
    let files = context.layout.sandbox_state(&target.checkout, target.agent);
    let (project, path) = (&request.project, files.provision());
    let home = read_record::<ProjectState>(&files.state())?.unwrap_or_default().home_volume;
    let worktrees = host_path::worktrees(project, home.as_ref());
    let had = |record: &ProvisionRecord| record.hooks_boot.as_deref() == Some(up.guest_boot.as_str());
    let is_done =
        |record: &ProvisionRecord| had(record) && host_path::has_seen(&record.worktrees, &worktrees);
    let read = || read_record::<ProvisionRecord>(&path).map(Option::unwrap_or_default);
    // Nobody waits for a command in the guest that has nothing to do.
    if is_done(&read()?) {
        return Ok(Vec::new());
    }
    let _lock = boot_lock(context, &target, request.verb)?;
    let mut record = read()?;
    if is_done(&record) {
        return Ok(Vec::new());
    }
    if had(&record) {
        record.worktrees = host_path::see_to_worktrees(context, project, up, &worktrees, &record.worktrees)?;
        write_record(&path, &record)?;
        return Ok(Vec::new());
    }
    host_path::link_host_path(context, project, up, &worktrees, home.as_ref(), &mut record)?;
    // Only now: whoever is interrupted before leaves all of it to the next.
    record.hooks_boot = Some(up.guest_boot.clone());
    write_record(&path, &record)?;
    let hooks = assembly.hooks.iter().map(|hook| {
        let home = if hook.root { GUEST_HOME } else { "" };
        let mut command = ExecSpec::new(["sh", "-c", RUN, "agents-sandbox", &hook.target, home]);
        command.user = if hook.root { ExecUser::Root } else { ExecUser::Dev };
        command.cwd = Some(up.guest_dir.clone());
        command.tty = tty;
        StartupHook { target: hook.target.clone(), command }
    });
    Ok(hooks.collect())
}

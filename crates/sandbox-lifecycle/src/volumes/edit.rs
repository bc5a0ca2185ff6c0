//! A new home made by hand: a shell in a throw-away sandbox whose home is the new volume, with the files of
//! the old one beside it.
//!
//! ```text
//! boot lock ─► new volume, aside ─► copy of the old one, aside ─► task sandbox ─► shell … ─► commit ─► state file
//!                                                                                      └──► drop: nothing happened
//! ```
//!
//! A sandbox has one home disk. The old volume therefore comes as a file in the shared folder, read-only
//! through a loop device: a copy, whose journal has been played back, so that the original stays untouched.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use fs_err as fs;
use sandbox_model::{
    ByteSize, ExecSpec, ExecUser, GUEST_HOME, HomeDisk, NetworkPolicy, Resources, SandboxName, SandboxSpec,
    TermSize, WorkspaceMount, labels,
};
use sandbox_runtime::{RuntimeError, StopOutcome};
use sandbox_state::Stamp;

use super::replace::Begun;
use super::{Replaced, Replacement, VolumeError, copy, graft};
use crate::command::SCRIPT_WITHIN;
use crate::home_volume::{self, Unfinished};
use crate::{Context, shell_command};

/// Where the old home's files are inside the task's sandbox; read-only.
pub const GUEST_OLD_HOME: &str = "/mnt/old-home";
const OLD_FILE: &str = "old-home.ext4";
const GRACE: Duration = Duration::from_secs(30);
/// A sandbox whose launcher died has no client any more.
const IDLE: Duration = Duration::from_mins(1);

/// A new home being made by hand. Dropping it gives up: the old home stays the current one.
pub struct Edit<'a> {
    // In the order in which they go: the sandbox, its files, the locks.
    task: Task<'a>,
    unfinished: Unfinished,
    begun: Begun,
}

/// The throw-away sandbox.
struct Task<'a> {
    context: &'a Context<'a>,
    name: SandboxName,
}

impl std::fmt::Debug for Edit<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Edit").field("sandbox", &self.task.name).finish_non_exhaustive()
    }
}

/// Makes the new volume and boots the sandbox for it. A sandbox of the checkout that runs is treated as by
/// [`super::migrate`]; it cannot be started until this ends.
pub fn edit<'a>(context: &'a Context<'a>, wish: &Replacement) -> Result<Edit<'a>, VolumeError> {
    let begun = Begun::new(context, wish, true, "volume edit")?;
    let step = context.reporter.begin("making the home volume");
    let unfinished = home_volume::begin(context, &begun.target, &begun.image, begun.dev)?;
    home_volume::fill(&unfinished, begun.dev)?;
    let shared = unfinished.folder().join("old");
    fs::create_dir(&shared)?;
    fs::set_permissions(&shared, std::fs::Permissions::from_mode(0o700))?;
    copy::copy(&begun.path, &shared.join(OLD_FILE), |_| {})?;
    graft::settle(&shared.join(OLD_FILE))?;
    step.finish(None);
    let spec = spec(context, wish, &begun, &unfinished.file, &shared)?;
    // From here on, dropping it clears away.
    let edit = Edit { task: Task { context, name: spec.name.clone() }, unfinished, begun };
    let step = context.reporter.begin("starting the sandbox");
    context.runtime.create(&spec)?;
    context.runtime.start(&spec.name)?;
    edit.task.mount_old()?;
    step.finish(None);
    Ok(edit)
}

/// Neither the checkout's resources nor its network: nothing is to be done here but copying files.
fn spec(
    context: &Context<'_>,
    wish: &Replacement,
    begun: &Begun,
    home: &Path,
    shared: &Path,
) -> Result<SandboxSpec, VolumeError> {
    let name = format!("{}-task-{}", begun.target.name(), Stamp::for_name(Stamp::now()));
    let name =
        name.parse().map_err(|error: sandbox_model::InvalidName| RuntimeError::other(error.to_string()))?;
    let mut labels = BTreeMap::from([
        (labels::MANAGED.into(), "true".into()),
        (labels::TASK.into(), "volume-edit".into()),
        (labels::CHECKOUT.into(), begun.target.checkout.to_string()),
        (labels::AGENT.into(), begun.target.agent.to_string()),
        (labels::IMAGE.into(), begun.reference.to_string()),
    ]);
    if let Some(repo) = &wish.build.project.repo {
        labels.insert(labels::PROJECT.into(), repo.to_string());
    }
    Ok(SandboxSpec {
        name,
        image: begun.reference.clone(),
        image_digest: begun.image.clone(),
        resources: Resources { cpus: 1, memory: ByteSize::gib(1) },
        root_disk: ByteSize::gib(1),
        tmp: ByteSize::mib(512),
        home: HomeDisk { path: home.into() },
        workspace: WorkspaceMount {
            source: shared.into(),
            quota: ByteSize::mib(1),
            host_uid: context.identity.uid,
            host_gid: context.identity.gid,
            guest_uid: begun.dev.0,
            guest_gid: begun.dev.1,
        },
        env: BTreeMap::new(),
        network: NetworkPolicy::default(),
        ssh_agent: false,
        labels,
        mounts: Vec::new(),
        ports: Vec::new(),
        secrets: Vec::new(),
        idle_timeout: IDLE,
        sleep: false,
    })
}

impl Edit<'_> {
    /// The sandbox to run [`Edit::shell`] in.
    pub fn sandbox(&self) -> &SandboxName {
        &self.task.name
    }

    /// A login shell in the new home. The old home's files are at [`GUEST_OLD_HOME`].
    pub fn shell(&self, tty: Option<TermSize>) -> ExecSpec {
        // It ends with the sandbox, which is there for it alone.
        ExecSpec { keep: None, ..shell_command(GUEST_HOME, false, tty) }
    }

    /// Ends the sandbox, checks the new volume and makes it the current home.
    pub fn commit(self) -> Result<Replaced, VolumeError> {
        let Self { task, unfinished, begun } = self;
        let context = task.context;
        let step = context.reporter.begin("checking the home volume");
        if context.runtime.stop(&task.name, GRACE)? != StopOutcome::Graceful {
            graft::settle(&unfinished.file)?;
        }
        drop(task);
        graft::verify(&unfinished.file)?;
        step.finish(None);
        let (new, path) = home_volume::finish(context, &begun.target, &unfinished)?;
        begun.record(context, new, &path)
    }
}

impl Task<'_> {
    /// A runtime without a root of its own would mount it on the host.
    fn mount_old(&self) -> Result<(), VolumeError> {
        if !self.context.runtime.capabilities().guest_root {
            return Ok(());
        }
        let script = format!(
            "mkdir -p {GUEST_OLD_HOME} && mount -t ext4 -o loop,ro,nosuid,nodev /workspace/{OLD_FILE} {GUEST_OLD_HOME}"
        );
        let words = ["sh", "-c", &script].map(OsString::from);
        let command = ExecSpec { user: ExecUser::Root, cwd: Some("/".into()), ..ExecSpec::new(words) };
        let done = self.context.runtime.exec(&self.name, &command)?;
        let done = done.collect_within("the mount of the old home", SCRIPT_WITHIN)?;
        if done.status.shell_code() == 0 {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&done.stderr).trim().to_string();
        Err(RuntimeError::other(format!("the old home cannot be shown in the sandbox: {said}")).into())
    }
}

impl Drop for Task<'_> {
    fn drop(&mut self) {
        // What cannot be removed now is a task's leftover, and pruning takes it.
        let _ = self.context.runtime.kill(&self.name);
        let _ = self.context.runtime.remove(&self.name);
    }
}

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use fs_err as fs;
use sandbox_model::{
    ByteSize, Digest, ExecSpec, ImageRef, KeptSession, PortForward, Proxies, Resources, SandboxName,
    SandboxSpec, SecretSpec, SecretValues, SessionEnd, Status, TermSize,
};
use sandbox_runtime::{
    BrokenImage, Capabilities, Connection, ExecSession, ImageInfo, LogFile, Progress, Result, Runtime,
    RuntimeError, SandboxInfo, SandboxList, Slept, StopOutcome,
};
use sandbox_state::{Layout, Lock, LockMode, QemuLayout, Stamp, crash, make_private_dir};
use sandbox_wire::{Accel, MachineReply, MachineRequest, MachineState};

use crate::client::{self, Asked};
use crate::error::from_state;
use crate::files::{MachineFiles, own};
use crate::images::ImageStore;
use crate::options::QemuOptions;
use crate::record::{self, SandboxRecord};
use crate::{boot, memory, secrets, version};

/// For a guest that was just waking, where it cannot fall asleep again.
const CALLED_OFF_WITHIN: Duration = Duration::from_secs(10);

/// Sandboxes as QEMU machines. All state is on disk: any number of processes may use it at once.
#[derive(Debug)]
pub struct QemuRuntime {
    layout: QemuLayout,
    options: QemuOptions,
    images: ImageStore,
    sleeps: OnceLock<bool>,
}

impl QemuRuntime {
    /// Looks at nothing: QEMU and a kernel are missed by the first call that needs them.
    pub fn new(layout: &Layout, options: QemuOptions) -> Self {
        let layout = layout.qemu();
        Self { images: ImageStore::new(layout.clone()), layout, options, sleeps: OnceLock::new() }
    }

    fn files(&self, name: &SandboxName) -> MachineFiles {
        MachineFiles::new(&self.layout.sandbox(name))
    }

    /// The files and record of a sandbox that exists.
    fn existing(&self, name: &SandboxName) -> Result<(MachineFiles, SandboxRecord)> {
        let files = self.files(name);
        let record = SandboxRecord::read(&files)?.ok_or_else(|| RuntimeError::NoSuchSandbox(name.clone()))?;
        Ok((files, record))
    }

    /// The images of every sandbox; a record that cannot be read may use any, so nothing is then unused.
    fn used_images(&self) -> Result<Option<Vec<Digest>>> {
        let list = self.list()?;
        let all = list.sandboxes.into_iter().map(|info| info.spec.image_digest).collect();
        Ok(list.broken.is_empty().then_some(all))
    }

    /// Held while folders in the place of sandboxes come and go.
    fn create_lock(&self, purpose: &str) -> Result<Lock> {
        Lock::take(&own::create_lock(&self.layout.dir), LockMode::Exclusive, purpose, |_| {})
            .map_err(from_state)
    }

    /// Creations and removals that were killed, of any sandbox: the lock is held, so none of them is under way. Only
    /// the one in the place of `wanted` may not stay.
    fn sweep(&self, wanted: &Path) -> Result<()> {
        for entry in fs::read_dir(self.layout.sandboxes())? {
            let entry = entry?;
            let name = entry.file_name();
            if [".new-", ".gone-"].iter().any(|left| name.as_encoded_bytes().starts_with(left.as_bytes())) {
                match fs::remove_dir_all(entry.path()) {
                    Err(error) if entry.path() != wanted => {
                        tracing::warn!("what a killed program left stays: {error}");
                    }
                    other => other?,
                }
            }
        }
        Ok(())
    }

    fn change_lock(files: &MachineFiles) -> Result<Lock> {
        Lock::take(&files.change_lock(), LockMode::Exclusive, "change", |_| {}).map_err(from_state)
    }

    /// Whether the QEMU that is installed can save a machine. One that is not there cannot.
    fn can_sleep(&self) -> bool {
        *self.sleeps.get_or_init(|| {
            let reason = boot::find_qemu().and_then(|qemu| version::why_no_sleep(&self.layout.dir, &qemu));
            matches!(reason, Ok(None))
        })
    }

    /// Has a machine that is up open and close ports, and then a change noted in the record.
    fn publish(
        &self,
        name: &SandboxName,
        open: &[PortForward],
        close: &[PortForward],
        note: impl FnOnce(&mut SandboxRecord),
    ) -> Result<()> {
        let files = self.files(name);
        let _lock = Self::change_lock(&files)?;
        let (files, mut record) = self.existing(name)?;
        if !boot::status(&files)?.is_at_rest() {
            let request = MachineRequest::Ports { open: open.to_vec(), close: close.to_vec() };
            match client::ask(&files, &request)? {
                Asked::Answer(_, MachineReply::Ports) => {}
                Asked::Answer(_, MachineReply::Refused { reason }) => {
                    return Err(RuntimeError::other(reason));
                }
                // A machine of an earlier version does not know the question.
                Asked::Answer(..) | Asked::Gone => {
                    return Err(RuntimeError::Unsupported(
                        "the ports of this sandbox change at its next start",
                    ));
                }
            }
        }
        note(&mut record);
        record.write(&files)
    }

    fn end(&self, name: &SandboxName, request: &MachineRequest) -> Result<Slept> {
        let (files, _) = self.existing(name)?;
        if boot::status(&files)?.is_at_rest() {
            return Ok(StopOutcome::AlreadyAtRest.into());
        }
        match client::ask(&files, request)? {
            // Another boot than the one that was meant.
            Asked::Answer(_, MachineReply::Refused { .. }) => Ok(StopOutcome::AlreadyAtRest.into()),
            Asked::Answer(mut socket, reply) => {
                client::wait_for_end(&mut socket)?;
                Ok(match reply {
                    MachineReply::Stopped { asleep: true, .. } => StopOutcome::Asleep.into(),
                    MachineReply::Stopped { forced, not_asleep, .. } => Slept {
                        outcome: if forced { StopOutcome::Forced } else { StopOutcome::Graceful },
                        why_not: not_asleep,
                    },
                    _ => StopOutcome::Graceful.into(),
                })
            }
            // It ended for another reason, or at another's request, while it was asked.
            Asked::Gone => {
                client::wait_until_gone(&files)?;
                Ok(StopOutcome::Graceful.into())
            }
        }
    }
}

impl Runtime for QemuRuntime {
    fn name(&self) -> &'static str {
        "qemu"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            live_resources: false,
            dial: true,
            sleep: self.can_sleep(),
            sessions: true,
            guest_root: true,
            workspace_quota: true,
            proxy: true,
            live_ports: true,
            live_secrets: true,
            ssh_agent: true,
        }
    }

    fn load_image(
        &self,
        reference: &ImageRef,
        digest: &Digest,
        archive: &mut dyn Read,
        progress: Progress<'_>,
    ) -> Result<ImageInfo> {
        self.images.load(reference, digest, archive, progress)
    }

    fn inspect_image(&self, reference: &ImageRef) -> Result<Option<ImageInfo>> {
        self.images.inspect(reference)
    }

    fn list_images(&self) -> Result<Vec<ImageInfo>> {
        self.images.list()
    }

    fn broken_images(&self) -> Result<Vec<BrokenImage>> {
        self.images.broken()
    }

    fn remove_image(&self, reference: &ImageRef) -> Result<()> {
        self.images.remove(reference, self.used_images()?.as_deref())
    }

    fn export_image_dir(&self, digest: &Digest, guest_path: &str, to: &Path) -> Result<()> {
        sandbox_image_store::export_dir(&[self.images.rootfs(digest)?], guest_path, to)
    }

    fn create(&self, spec: &SandboxSpec) -> Result<()> {
        let files = self.files(&spec.name);
        self.images.rootfs(&spec.image_digest)?;
        boot::check_spec(spec)?;
        make_private_dir(&self.layout.sandboxes()).map_err(from_state)?;
        // Made beside its place and renamed: a crash leaves no half sandbox.
        let aside = self.layout.sandboxes().join(format!(".new-{}", spec.name));
        let _lock = self.create_lock("create")?;
        if files.dir.exists() {
            return Err(RuntimeError::Exists(spec.name.clone()));
        }
        self.sweep(&aside)?;
        make_private_dir(&aside).map_err(from_state)?;
        let new = MachineFiles::new(&aside);
        sandbox_image_store::make_root_disk(&new.root_disk(), spec.root_disk)?;
        crash::point("a machine has a disk and no name");
        SandboxRecord::new(spec.clone(), Stamp::now()).write(&new)?;
        fs::rename(&aside, &files.dir)?;
        Ok(())
    }

    fn start(&self, name: &SandboxName) -> Result<()> {
        self.start_with(name, &SecretValues::new(), None)
    }

    fn start_with(&self, name: &SandboxName, values: &SecretValues, proxies: Option<&Proxies>) -> Result<()> {
        let (files, _) = self.existing(name)?;
        // Without the lock first: a machine that is up, or on its way, needs no change.
        match boot::status(&files)? {
            Status::Running if client::listens(&files)? => return Ok(()),
            Status::Running => client::wait_until_gone(&files)?,
            Status::Starting => return boot::wait_until_running(name, &files),
            _ => {}
        }
        let _lock = Self::change_lock(&files)?;
        let (files, record) = self.existing(name)?;
        match boot::status(&files)? {
            Status::Running => Ok(()),
            Status::Starting => boot::wait_until_running(name, &files),
            status if status.is_at_rest() => {
                boot::boot(&self.layout, &self.options, &self.images, &files, record, values, proxies)
            }
            status => Err(RuntimeError::WrongStatus { name: name.clone(), status, action: "start" }),
        }
    }

    fn stop(&self, name: &SandboxName, grace: Duration) -> Result<StopOutcome> {
        let grace_millis = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        let request = MachineRequest::Stop { grace_millis, boot_id: None, sleep: false };
        self.end(name, &request).map(|slept| slept.outcome)
    }

    fn stop_boot(&self, name: &SandboxName, boot_id: &str, grace: Duration) -> Result<StopOutcome> {
        let grace_millis = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        let request = MachineRequest::Stop { grace_millis, boot_id: Some(boot_id.into()), sleep: false };
        self.end(name, &request).map(|slept| slept.outcome)
    }

    fn sleep(&self, name: &SandboxName, boot_id: Option<&str>, grace: Duration) -> Result<Slept> {
        let grace_millis = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        let boot_id = boot_id.map(Into::into);
        // A QEMU that cannot was told of when the sandbox started.
        self.end(name, &MachineRequest::Stop { grace_millis, boot_id, sleep: self.can_sleep() })
    }

    fn forget_memory(&self, name: &SandboxName) -> Result<Option<ByteSize>> {
        let (files, _) = self.existing(name)?;
        let _lock = Self::change_lock(&files)?;
        let (files, _) = self.existing(name)?;
        if boot::status(&files)?.is_at_rest() { memory::forget(&files) } else { Ok(None) }
    }

    fn forget_memory_before(&self, name: &SandboxName, time: i64) -> Result<Option<ByteSize>> {
        let (files, _) = self.existing(name)?;
        // Under it nobody starts the sandbox, so that none falls asleep anew.
        let _lock = Self::change_lock(&files)?;
        let (files, record) = self.existing(name)?;
        let info = record::info(&files, record)?;
        if info.status.is_at_rest() && info.updated < time { memory::forget(&files) } else { Ok(None) }
    }

    fn kill(&self, name: &SandboxName) -> Result<()> {
        self.end(name, &MachineRequest::Kill).map(drop)
    }

    fn call_off(&self, name: &SandboxName) -> Result<()> {
        // Also while it wakes: what it was at is in no file then.
        self.sleep(name, None, CALLED_OFF_WITHIN).map(drop)
    }

    fn remove(&self, name: &SandboxName) -> Result<()> {
        let files = self.files(name);
        if !files.dir.exists() {
            return Ok(());
        }
        let _lock = Self::change_lock(&files)?;
        let status = boot::status(&files)?;
        if !status.is_at_rest() {
            return Err(RuntimeError::WrongStatus { name: name.clone(), status, action: "remove it" });
        }
        // Whoever settles its memory just now finds nothing to go on with.
        let _memory = memory::lock(&files)?;
        // Out of the way in one step, so that a crash leaves no half sandbox under its name.
        let aside = self.layout.sandboxes().join(format!(".gone-{name}"));
        let create_lock = self.create_lock("remove")?;
        self.sweep(&aside)?;
        let digest = SandboxRecord::read(&files).ok().flatten().map(|record| record.spec.image_digest);
        fs::rename(&files.dir, &aside)?;
        crash::point("a machine is put aside");
        fs::remove_dir_all(&aside)?;
        drop(create_lock);
        // An image that lost its name lives on for its last sandbox, and no longer.
        digest.map_or(Ok(()), |digest| self.images.remove_unused(&digest, self.used_images()?.as_deref()))
    }

    fn update(&self, spec: &SandboxSpec) -> Result<()> {
        let (files, _) = self.existing(&spec.name)?;
        let _lock = Self::change_lock(&files)?;
        let (files, record) = self.existing(&spec.name)?;
        let status = boot::status(&files)?;
        if !status.is_at_rest() {
            return Err(RuntimeError::WrongStatus { name: spec.name.clone(), status, action: "change it" });
        }
        if record.spec.image_digest != spec.image_digest || record.spec.root_disk != spec.root_disk {
            return Err(RuntimeError::Unsupported("a sandbox keeps its image and root disk; make it anew"));
        }
        memory::forget(&files)?;
        SandboxRecord::new(spec.clone(), record.created).write(&files)
    }

    fn modify(&self, _: &SandboxName, _: Resources) -> Result<()> {
        Err(RuntimeError::Unsupported("CPUs and memory change at the next start"))
    }

    fn inspect(&self, name: &SandboxName) -> Result<Option<SandboxInfo>> {
        let files = self.files(name);
        SandboxRecord::read(&files)?.map(|record| record::info(&files, record)).transpose()
    }

    fn list(&self) -> Result<SandboxList> {
        record::list(&self.layout)
    }

    fn exec(&self, name: &SandboxName, spec: &ExecSpec) -> Result<ExecSession> {
        if spec.argv.is_empty() {
            return Err(RuntimeError::ExecFailed { code: 1, message: "no command was given".into() });
        }
        let (files, _) = self.existing(name)?;
        let socket = client::connect(name, &files, &MachineRequest::Guest, "run a command")?;
        // The guest program of such a machine knows the variables of its image and sandbox.
        sandbox_guest_client::exec(name, socket, spec, &[])
    }

    fn sessions(&self, name: &SandboxName) -> Result<Vec<KeptSession>> {
        let (files, _) = self.existing(name)?;
        sandbox_guest_client::sessions(
            name,
            client::connect(name, &files, &MachineRequest::Guest, "list its sessions")?,
        )
    }

    fn attach(&self, name: &SandboxName, session: u32, size: TermSize) -> Result<ExecSession> {
        let (files, _) = self.existing(name)?;
        let socket = client::connect(name, &files, &MachineRequest::Guest, "attach to a session")?;
        sandbox_guest_client::attach(name, socket, session, size)
    }

    fn end_session(&self, name: &SandboxName, session: u32) -> Result<SessionEnd> {
        let (files, _) = self.existing(name)?;
        let socket = client::connect(name, &files, &MachineRequest::Guest, "end a session")?;
        sandbox_guest_client::end_session(name, socket, session)
    }

    fn dial(&self, name: &SandboxName, port: u16) -> Result<Box<dyn Connection>> {
        let (files, _) = self.existing(name)?;
        let socket = client::connect(name, &files, &MachineRequest::Guest, "connect")?;
        sandbox_guest_client::dial(name, socket, port)
    }

    fn change_ports(&self, name: &SandboxName, open: &[PortForward], close: &[PortForward]) -> Result<()> {
        self.publish(name, open, close, |record| record.change_ports(open, close))
    }

    fn add_ports(&self, name: &SandboxName, ports: &[PortForward]) -> Result<()> {
        self.publish(name, ports, &[], |record| record.add_ports(ports))
    }

    fn change_secret_values(
        &self,
        name: &SandboxName,
        secrets: &[SecretSpec],
        values: &SecretValues,
    ) -> Result<()> {
        let files = self.files(name);
        let _lock = Self::change_lock(&files)?;
        let (files, mut record) = self.existing(name)?;
        secrets::change(&files, &mut record, secrets, values)
    }

    fn accept_ssh_agent(&self, name: &SandboxName) -> Result<Box<dyn Connection>> {
        let (files, _) = self.existing(name)?;
        let socket = client::connect(name, &files, &MachineRequest::Guest, "serve its ssh-agent")?;
        sandbox_guest_client::accept_ssh_agent(name, socket)
    }

    fn hold(&self, name: &SandboxName) -> Result<Box<dyn Send>> {
        let (files, _) = self.existing(name)?;
        Ok(Box::new(client::connect(name, &files, &MachineRequest::Hold, "hold it")?))
    }

    fn boot_id(&self, name: &SandboxName) -> Result<Option<String>> {
        let (files, _) = self.existing(name)?;
        match client::ask(&files, &MachineRequest::State)? {
            Asked::Answer(_, MachineReply::State(state)) if !is_ending(&state) => Ok(Some(state.boot_id)),
            _ => Ok(None),
        }
    }

    fn guest_boot(&self, name: &SandboxName) -> Result<Option<String>> {
        let (files, _) = self.existing(name)?;
        match client::ask(&files, &MachineRequest::State)? {
            Asked::Answer(_, MachineReply::State(state)) if !is_ending(&state) => {
                Ok(state.guest_boot.or(Some(state.boot_id)))
            }
            _ => Ok(None),
        }
    }

    fn emulated(&self, name: &SandboxName) -> Result<bool> {
        let (files, _) = self.existing(name)?;
        match client::ask(&files, &MachineRequest::State)? {
            Asked::Answer(_, MachineReply::State(state)) => Ok(state.accel == Accel::Tcg),
            _ => Ok(false),
        }
    }

    fn logs(&self, name: &SandboxName) -> Result<Vec<LogFile>> {
        let (files, _) = self.existing(name)?;
        Ok(vec![
            LogFile { name: "console", path: files.console_log() },
            LogFile { name: "machine", path: files.machine_log() },
        ])
    }

    fn network_log(&self, name: &SandboxName) -> Result<Option<PathBuf>> {
        let (files, _) = self.existing(name)?;
        Ok(Some(files.network_log()))
    }

    fn disk_usage(&self, name: &SandboxName) -> Result<ByteSize> {
        let (files, _) = self.existing(name)?;
        record::usage(&files)?.ok_or_else(|| RuntimeError::NoSuchSandbox(name.clone()))
    }
}

/// A boot that is about to be over is nobody's to build on.
fn is_ending(state: &MachineState) -> bool {
    state.status == Status::Draining
}

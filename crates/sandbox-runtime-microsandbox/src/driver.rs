mod begin;
mod publish;
mod reach;
mod rest;

use std::collections::HashMap;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use fs_err as fs;
use sandbox_model::{
    ByteSize, Digest, ExecSpec, ImageRef, KeptSession, PortForward, Proxies, Resources, SandboxName,
    SandboxSpec, SecretSpec, SecretValues, SessionEnd, Status, TermSize,
};
use sandbox_runtime::{
    BrokenImage, Capabilities, Connection, ExecSession, ImageInfo, LogFile, Progress, Result, Runtime,
    RuntimeError, SandboxInfo, SandboxList, StopOutcome,
};
use sandbox_state::{Layout, Lock, LockMode, Stamp, make_private_dir, write_record};

use crate::call::Msb;
use crate::error::from_state;
use crate::files::{Files, SandboxPaths};
use crate::images::Images;
use crate::link::GuestLink;
use crate::options::MsbOptions;
use crate::outlet;
use crate::record::SandboxRecord;
use crate::roster::{self, Roster};
use crate::{boot, command, environment, hold, install, link_process, machine, power, sessions};
use sandbox_image_store::export_dir;

/// Sandboxes of the private microsandbox. All state is on disk: any number of processes may use it at once.
#[derive(Debug)]
pub struct MsbRuntime {
    files: Files,
    options: MsbOptions,
    msb: OnceLock<Msb>,
    /// Drives the links. Made with the first one.
    reactor: OnceLock<Reactor>,
    links: Mutex<HashMap<SandboxName, GuestLink>>,
}

/// Ends without waiting for what it drives.
#[derive(Debug)]
struct Reactor(Option<tokio::runtime::Runtime>);

impl Drop for Reactor {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl MsbRuntime {
    /// Installs and runs nothing yet: [`MsbOptions::msb`] is asked when something first needs it.
    pub fn new(layout: &Layout, options: MsbOptions) -> Self {
        let files = Files { home: layout.msb_files() };
        let (msb, reactor) = (OnceLock::new(), OnceLock::new());
        Self { files, options, msb, reactor, links: Mutex::default() }
    }

    /// Whether a process runs from any installed version: a machine, or a call of a command line.
    pub fn is_running(&self) -> bool {
        install::is_run_from(&self.files.home.dir)
    }

    fn msb(&self) -> Result<Msb> {
        if let Some(msb) = self.msb.get() {
            return Ok(msb.clone());
        }
        make_private_dir(&self.files.home.dir).map_err(from_state)?;
        let msb = Msb::new((self.options.msb)()?, &self.files, self.options.patience);
        Ok(self.msb.get_or_init(|| msb).clone())
    }

    /// The version that has just started a sandbox needs no older one beside it.
    fn retire_old_versions(&self) {
        if let Err(error) = install::retire_others(&self.files.home, install::VERSION) {
            tracing::warn!("old versions of the runtime stay: {error}");
        }
    }

    fn reactor(&self) -> Result<tokio::runtime::Handle> {
        if self.reactor.get().is_none() {
            let runtime =
                tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
            // Another thread may have been first; its runtime is used, and ours ends at once.
            let _ = self.reactor.set(Reactor(Some(runtime)));
        }
        let runtime = self.reactor.get().and_then(|reactor| reactor.0.as_ref());
        runtime
            .map(|runtime| runtime.handle().clone())
            .ok_or_else(|| RuntimeError::other("there is no reactor"))
    }

    fn images(&self) -> Images<'_> {
        Images::new(&self.files)
    }

    fn paths(&self, name: &SandboxName) -> SandboxPaths {
        self.files.sandbox(name)
    }

    /// The files and record of a sandbox that exists.
    fn existing(&self, name: &SandboxName) -> Result<(SandboxPaths, SandboxRecord)> {
        let paths = self.paths(name);
        let record = SandboxRecord::read(&paths)?.ok_or_else(|| RuntimeError::NoSuchSandbox(name.clone()))?;
        Ok((paths, record))
    }

    fn status(&self, paths: &SandboxPaths, name: &SandboxName) -> Result<Status> {
        let roster = Roster::for_one(&self.files, name, || self.msb())?;
        Ok(roster.status(paths, name.as_str())?.0)
    }

    fn change_lock(paths: &SandboxPaths, mode: LockMode) -> Result<Lock> {
        Lock::take(&paths.change_lock(), mode, "change", |_| {}).map_err(from_state)
    }

    /// The images of every sandbox; a record that cannot be read may use any, so nothing is then unused.
    fn used_images(&self) -> Result<Option<Vec<Digest>>> {
        let records = roster::records(&self.files)?;
        let all = records.sandboxes.into_iter().map(|record| record.spec.image_digest).collect();
        Ok(records.broken.is_empty().then_some(all))
    }

    fn wrong(name: &SandboxName, status: Status, action: &'static str) -> RuntimeError {
        RuntimeError::WrongStatus { name: name.clone(), status, action }
    }
}

impl Runtime for MsbRuntime {
    fn name(&self) -> &'static str {
        "microsandbox"
    }

    /// Asks nobody.
    fn has(&self, name: &SandboxName) -> Result<bool> {
        Ok(self.paths(name).dir.exists())
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            live_resources: true,
            dial: true,
            sleep: false,
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
        self.images().load(|| self.msb(), reference, digest, archive, progress)
    }

    fn inspect_image(&self, reference: &ImageRef) -> Result<Option<ImageInfo>> {
        self.images().inspect(reference)
    }

    fn list_images(&self) -> Result<Vec<ImageInfo>> {
        self.images().list()
    }

    fn broken_images(&self) -> Result<Vec<BrokenImage>> {
        self.images().broken()
    }

    fn remove_image(&self, reference: &ImageRef) -> Result<()> {
        self.images().remove(|| self.msb(), reference, self.used_images()?.as_deref())
    }

    fn export_image_dir(&self, digest: &Digest, guest_path: &str, to: &Path) -> Result<()> {
        let content = self.images().content(digest)?;
        let layers: Vec<PathBuf> = content.layers.iter().map(|layer| self.files.layer(layer)).collect();
        export_dir(&layers, guest_path, to)
    }

    fn create(&self, spec: &SandboxSpec) -> Result<()> {
        let paths = self.paths(&spec.name);
        self.images().content(&spec.image_digest)?;
        // Says now what would otherwise be said by the first start.
        boot::create_line(&self.files, &paths, &self.options, spec, &[])?;
        for (path, what) in [(&spec.home.path, "home disk"), (&spec.workspace.source, "workspace")] {
            fs::metadata(path).map_err(|error| RuntimeError::Other {
                context: format!("the {what} cannot be used: {error}"),
                source: None,
            })?;
        }
        make_private_dir(&self.files.sandboxes()).map_err(from_state)?;
        // Made beside its place and renamed: a crash leaves no half sandbox.
        let aside = SandboxPaths::at(&self.files.sandboxes().join(format!(".new-{}", spec.name)));
        let _lock = Lock::take(&self.files.create_lock(), LockMode::Exclusive, "create", |_| {})
            .map_err(from_state)?;
        if paths.dir.exists() {
            return Err(RuntimeError::Exists(spec.name.clone()));
        }
        if aside.dir.exists() {
            fs::remove_dir_all(&aside.dir)?;
        }
        make_private_dir(&aside.dir).map_err(from_state)?;
        // Ours, and not one that `msb` manages: it has to outlive a sandbox that `msb` makes anew with other settings.
        sandbox_image_store::make_root_disk(&aside.root_disk(), spec.root_disk)?;
        SandboxRecord::new(spec.clone(), Stamp::now()).write(&aside)?;
        fs::rename(&aside.dir, &paths.dir)?;
        Ok(())
    }

    fn start(&self, name: &SandboxName) -> Result<()> {
        self.start_with(name, &SecretValues::new(), None)
    }

    fn start_with(&self, name: &SandboxName, values: &SecretValues, proxies: Option<&Proxies>) -> Result<()> {
        self.begin(name, values, proxies)
    }

    fn stop(&self, name: &SandboxName, grace: Duration) -> Result<StopOutcome> {
        let (paths, _) = self.existing(name)?;
        let _lock = Self::change_lock(&paths, LockMode::Exclusive)?;
        if self.status(&paths, name)?.is_at_rest() {
            return self.end_half(name);
        }
        self.end(name, grace)
    }

    fn stop_boot(&self, name: &SandboxName, boot_id: &str, grace: Duration) -> Result<StopOutcome> {
        let (paths, _) = self.existing(name)?;
        let _lock = Self::change_lock(&paths, LockMode::Exclusive)?;
        // With the lock nobody can start another one between the look and the stop.
        match self.boot_id(name)? {
            Some(id) if id == boot_id => self.end(name, grace),
            Some(_) => Ok(StopOutcome::AlreadyAtRest),
            None => self.end_half(name),
        }
    }

    /// Without the change lock: a start that hangs is what a kill is for. So is an `msb` that hangs: what it does not
    /// tell is not at rest, and neither is a machine that can be seen.
    fn kill(&self, name: &SandboxName) -> Result<()> {
        let (paths, _) = self.existing(name)?;
        if !machine::is_there(&self.files.home.dir, name) {
            match self.status(&paths, name) {
                Ok(status) if status.is_at_rest() => return Ok(()),
                Ok(_) | Err(RuntimeError::NoAnswer { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        self.forget_link(name);
        power::off(&self.files, &self.msb()?, name)?;
        link_process::end(&paths);
        Ok(())
    }

    fn remove(&self, name: &SandboxName) -> Result<()> {
        let paths = self.paths(name);
        if !paths.dir.exists() {
            return Ok(());
        }
        let _lock = Self::change_lock(&paths, LockMode::Exclusive)?;
        let msb = self.msb()?;
        let roster = Roster::ask(&msb)?;
        let status = roster.status(&paths, name.as_str())?.0;
        if !status.is_at_rest() {
            return Err(Self::wrong(name, status, "remove it"));
        }
        self.end_half(name)?;
        if roster.knows(name.as_str()) {
            msb.run(&command::remove(name.as_str()), msb.patience.ask)?;
        }
        link_process::end(&paths);
        // Out of the way in one step, so that a crash leaves no half sandbox under its name.
        let aside = self.files.sandboxes().join(format!(".gone-{name}"));
        if aside.exists() {
            fs::remove_dir_all(&aside)?;
        }
        let digest = SandboxRecord::read(&paths).ok().flatten().map(|record| record.spec.image_digest);
        fs::rename(&paths.dir, &aside)?;
        fs::remove_dir_all(&aside)?;
        // An image that lost its name lives on for its last sandbox, and no longer.
        digest.map_or(Ok(()), |digest| {
            self.images().remove_unused(|| self.msb(), &digest, self.used_images()?.as_deref())
        })
    }

    fn update(&self, spec: &SandboxSpec) -> Result<()> {
        let (paths, _) = self.existing(&spec.name)?;
        let _lock = Self::change_lock(&paths, LockMode::Exclusive)?;
        let (paths, record) = self.existing(&spec.name)?;
        let status = self.status(&paths, &spec.name)?;
        if !status.is_at_rest() {
            return Err(Self::wrong(&spec.name, status, "change it"));
        }
        if record.spec.image_digest != spec.image_digest || record.spec.root_disk != spec.root_disk {
            return Err(RuntimeError::Unsupported("a sandbox keeps its image and root disk; make it anew"));
        }
        boot::create_line(&self.files, &paths, &self.options, spec, &[])?;
        SandboxRecord::new(spec.clone(), record.created).write(&paths)
    }

    fn modify(&self, name: &SandboxName, resources: Resources) -> Result<()> {
        let (paths, _) = self.existing(name)?;
        let _lock = Self::change_lock(&paths, LockMode::Exclusive)?;
        let (paths, record) = self.existing(name)?;
        let status = self.status(&paths, name)?;
        if status != Status::Running {
            return Err(Self::wrong(name, status, "change its resources"));
        }
        if !boot::may_grow_to(&paths, resources) {
            return Err(RuntimeError::Unsupported("that is more than the machine was booted to grow to"));
        }
        let msb = self.msb()?;
        msb.run(&command::modify(name, resources), msb.patience.work)?;
        let record = record.with(|spec| spec.resources = resources);
        // What msb now has is not what a create of the new spec would give it (the ceilings differ), and
        // the next start makes it so.
        write_record(&paths.applied(), &link_process::kept_by_msb(&paths)).map_err(from_state)?;
        record.write(&paths)
    }

    fn inspect(&self, name: &SandboxName) -> Result<Option<SandboxInfo>> {
        let paths = self.paths(name);
        let Some(record) = SandboxRecord::read(&paths)? else { return Ok(None) };
        let roster = Roster::for_one(&self.files, name, || self.msb())?;
        roster.info(&paths, record).map(Some)
    }

    fn list(&self) -> Result<SandboxList> {
        let records = roster::records(&self.files)?;
        let mut list = SandboxList { sandboxes: Vec::new(), broken: records.broken };
        let mut asked = None;
        for record in records.sandboxes {
            let paths = self.paths(&record.spec.name);
            if let Some(seen) = Roster::seen(&self.files, &record.spec.name) {
                list.sandboxes.push(seen.info(&paths, record)?);
                continue;
            }
            let answer = asked.get_or_insert_with(|| self.msb().and_then(|msb| Roster::ask(&msb)));
            list.sandboxes.push(match answer {
                Ok(roster) => roster.info(&paths, record)?,
                // Nobody takes it for at rest.
                Err(error) => roster::without_answer(&paths, record, error)?,
            });
        }
        Ok(list)
    }

    fn exec(&self, name: &SandboxName, spec: &ExecSpec) -> Result<ExecSession> {
        let (_, record) = self.existing(name)?;
        if spec.argv.is_empty() {
            return Err(RuntimeError::ExecFailed { code: 1, message: "no command was given".into() });
        }
        let content = self.images().content(&record.spec.image_digest)?;
        let env = environment::of_sandbox(&content.env, &record.spec);
        let claim = || match (&spec.keep, spec.tty) {
            (Some(_), Some(_)) => sessions::claim(&self.paths(name), self.boot_id(name)?),
            _ => Ok(()),
        };
        self.on_stream(name, "run a command", claim, |stream| {
            sandbox_guest_client::exec(name, stream, spec, &env)
        })
    }

    fn sessions(&self, name: &SandboxName) -> Result<Vec<KeptSession>> {
        self.on_sessions(name, "list its sessions", |stream| sandbox_guest_client::sessions(name, stream))
    }

    fn attach(&self, name: &SandboxName, session: u32, size: TermSize) -> Result<ExecSession> {
        self.on_sessions(name, "attach to a session", |stream| {
            sandbox_guest_client::attach(name, stream, session, size)
        })
    }

    fn end_session(&self, name: &SandboxName, session: u32) -> Result<SessionEnd> {
        self.on_sessions(name, "end a session", |stream| {
            sandbox_guest_client::end_session(name, stream, session)
        })
    }

    fn dial(&self, name: &SandboxName, port: u16) -> Result<Box<dyn Connection>> {
        self.existing(name)?;
        self.on_stream(name, "connect", || Ok(()), |stream| sandbox_guest_client::dial(name, stream, port))
    }

    fn accept_ssh_agent(&self, name: &SandboxName) -> Result<Box<dyn Connection>> {
        self.existing(name)?;
        // It waits until a program of the guest comes, however long that takes.
        self.with_stream(name, "serve its ssh-agent", |_, stream| {
            sandbox_guest_client::accept_ssh_agent(name, stream)
        })
    }

    fn hold(&self, name: &SandboxName) -> Result<Box<dyn Send>> {
        let (paths, record) = self.existing(name)?;
        // A start that is under way ends with this lock.
        let _lock = Self::change_lock(&paths, LockMode::Shared)?;
        let status = self.status(&paths, name)?;
        if status != Status::Running {
            return Err(Self::wrong(name, status, "hold it"));
        }
        Ok(Box::new(hold::hold(&self.files, self.msb()?, name, record.spec.idle_timeout)?))
    }

    fn boot_id(&self, name: &SandboxName) -> Result<Option<String>> {
        let (paths, _) = self.existing(name)?;
        if self.status(&paths, name)? != Status::Running {
            return Ok(None);
        }
        match fs::read_to_string(paths.boot_id()) {
            Ok(id) => Ok(Some(id.trim().to_string())),
            // It ended a moment ago.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn logs(&self, name: &SandboxName) -> Result<Vec<LogFile>> {
        let (paths, _) = self.existing(name)?;
        let logs = [
            ("console", paths.console_log()),
            ("machine", paths.machine_log()),
            ("machine", paths.outlet_log()),
            ("machine", paths.link_log()),
        ];
        // A sandbox that was never started has none.
        let there = logs.into_iter().filter(|(_, path)| path.is_file());
        Ok(there.map(|(name, path)| LogFile { name, path }).collect())
    }

    fn network_log(&self, name: &SandboxName) -> Result<Option<PathBuf>> {
        let (paths, _) = self.existing(name)?;
        Ok(Some(paths.network_log()))
    }

    fn change_ports(&self, name: &SandboxName, open: &[PortForward], close: &[PortForward]) -> Result<()> {
        self.publish(name, open, close, false)
    }

    fn add_ports(&self, name: &SandboxName, ports: &[PortForward]) -> Result<()> {
        self.publish(name, ports, &[], true)
    }

    fn change_secret_values(
        &self,
        name: &SandboxName,
        secrets: &[SecretSpec],
        values: &SecretValues,
    ) -> Result<()> {
        let (paths, _) = self.existing(name)?;
        let _lock = Self::change_lock(&paths, LockMode::Exclusive)?;
        let (paths, record) = self.existing(name)?;
        outlet::secrets::change(&paths, record, secrets, values)
    }

    fn disk_usage(&self, name: &SandboxName) -> Result<ByteSize> {
        let (paths, _) = self.existing(name)?;
        Ok(ByteSize::from_bytes(512 * (roster::blocks(&paths.dir)? + roster::blocks(&paths.msb)?)))
    }
}

//! A runtime whose commands are local processes of the host.
//!
//! ```text
//! DIR/sandboxes/NAME/   record.json, boot.json (while it is meant to be up), console.log, machine.log,
//!                       network.log (which nobody writes but a test)
//! DIR/homes/…           what a real driver keeps inside the home disk
//! DIR/images/HEX/       the archive as it came, and what was read from it
//! DIR/sandboxes/NAME/memory.json   while it sleeps: its processes are stopped, not ended
//! DIR/references/…      one file per image reference
//! DIR/locks/            NAME.control, NAME.machine, images
//! DIR/faults.json       trouble on request, see [`Faults`]
//! ```
//!
//! A machine is one sleeping process that inherited the held lock `NAME.machine`: the lock is the only
//! proof of life, so several programs see the same sandboxes, and a machine that is killed is seen as
//! crashed. Commands carry the boot's id in their environment; that is how a stop finds them again.
//!
//! What it does not imitate: `/workspace` and `/home/dev` exist only as working directories (and as
//! `HOME`), never inside a command's words; every command runs as the caller; nothing is confined. So it
//! must only ever run commands that are harmless on the host.

mod connection;
mod exec;
mod faults;
mod images;
mod layers;
mod machine;
mod processes;
mod session;
mod spawn;
mod store;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sandbox_model::{
    ByteSize, Digest, ExecSpec, ImageRef, PortForward, Proxies, Resources, SandboxName, SandboxSpec,
    SecretSpec, SecretValues, Status,
};

use crate::{
    BrokenRecord, Capabilities, Connection, ExecSession, ImageInfo, LogFile, Progress, Result, Runtime,
    RuntimeError, SandboxInfo, SandboxList, Slept, StopOutcome,
};

pub use faults::Faults;
use machine::Machine;
use store::{Record, Store};

/// The fake, over one directory. Any number of values and processes may use the same directory.
#[derive(Debug, Clone)]
pub struct FakeRuntime {
    store: Store,
}

impl FakeRuntime {
    /// Uses `dir`, made when missing.
    pub fn open(dir: impl Into<PathBuf>) -> Result<Self> {
        Ok(Self { store: Store::open(dir.into())? })
    }

    /// Process id of a sandbox's machine, while it lives: for tests that pull the plug.
    pub fn machine_pid(&self, name: &SandboxName) -> Result<Option<u32>> {
        self.machine(name).live_pid()
    }

    /// Where the record of a sandbox is: for tests that break it.
    pub fn record_path(&self, name: &SandboxName) -> PathBuf {
        self.store.record_path(name)
    }

    /// From now on every program that uses this directory meets these troubles.
    pub fn set_faults(&self, faults: &Faults) -> Result<()> {
        faults.write(&self.store)
    }

    const fn machine<'a>(&'a self, name: &'a SandboxName) -> Machine<'a> {
        Machine::new(&self.store, name)
    }

    fn info(&self, name: &SandboxName, record: Record) -> Result<SandboxInfo> {
        let machine = self.machine(name);
        Ok(SandboxInfo {
            status: machine.status(&record)?,
            problem: machine.problem()?,
            saved_memory: self.store.saved_memory(name),
            spec: record.spec,
            created: record.created,
            updated: record.updated,
            added_ports: record.added_ports,
        })
    }
}

impl Runtime for FakeRuntime {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            live_resources: true,
            dial: true,
            sleep: true,
            sessions: false,
            guest_root: false,
            workspace_quota: false,
            proxy: true,
            live_ports: true,
            live_secrets: true,
            ssh_agent: false,
        }
    }

    fn load_image(
        &self,
        reference: &ImageRef,
        digest: &Digest,
        archive: &mut dyn Read,
        progress: Progress<'_>,
    ) -> Result<ImageInfo> {
        images::load(&self.store, reference, digest, archive, progress)
    }

    fn inspect_image(&self, reference: &ImageRef) -> Result<Option<ImageInfo>> {
        images::inspect(&self.store, reference)
    }

    fn list_images(&self) -> Result<Vec<ImageInfo>> {
        images::list(&self.store)
    }

    fn remove_image(&self, reference: &ImageRef) -> Result<()> {
        images::remove(&self.store, reference)
    }

    fn export_image_dir(&self, digest: &Digest, guest_path: &str, to: &Path) -> Result<()> {
        images::export_dir(&self.store, digest, guest_path, to)
    }

    fn create(&self, spec: &SandboxSpec) -> Result<()> {
        let _images = self.store.lock_images()?;
        if !images::is_stored(&self.store, &spec.image_digest) {
            return Err(RuntimeError::NoSuchContent(spec.image_digest.clone()));
        }
        fs::metadata(&spec.home.path).map_err(|error| {
            std::io::Error::new(error.kind(), format!("home disk {}: {error}", spec.home.path.display()))
        })?;
        self.store.create(spec)
    }

    fn start(&self, name: &SandboxName) -> Result<()> {
        self.start_with(name, &SecretValues::new(), None)
    }

    /// Nobody puts the values in: what a sandbox says goes nowhere.
    fn start_with(&self, name: &SandboxName, values: &SecretValues, _: Option<&Proxies>) -> Result<()> {
        self.machine(name).start(values)
    }

    fn stop(&self, name: &SandboxName, grace: Duration) -> Result<StopOutcome> {
        self.machine(name).stop(grace)
    }

    fn sleep(&self, name: &SandboxName, boot_id: Option<&str>, grace: Duration) -> Result<Slept> {
        self.machine(name).sleep(boot_id, grace)
    }

    fn forget_memory(&self, name: &SandboxName) -> Result<Option<ByteSize>> {
        let machine = self.machine(name);
        let _control = machine.control()?;
        self.store.require(name)?;
        machine.forget_memory()
    }

    fn forget_memory_before(&self, name: &SandboxName, time: i64) -> Result<Option<ByteSize>> {
        let machine = self.machine(name);
        let _control = machine.control()?;
        if self.store.require(name)?.updated < time { machine.forget_memory() } else { Ok(None) }
    }

    fn kill(&self, name: &SandboxName) -> Result<()> {
        self.machine(name).kill()
    }

    fn remove(&self, name: &SandboxName) -> Result<()> {
        let _images = self.store.lock_images()?;
        let digest = match self.store.read(name) {
            Ok(None) => return Ok(()),
            Ok(Some(record)) => Some(record.spec.image_digest),
            // A record that cannot be read must not make its sandbox immortal.
            Err(RuntimeError::BadRecord { .. }) => None,
            Err(error) => return Err(error),
        };
        self.machine(name).remove()?;
        digest.map_or(Ok(()), |digest| images::collect(&self.store, &digest))
    }

    fn update(&self, spec: &SandboxSpec) -> Result<()> {
        let machine = self.machine(&spec.name);
        let _control = machine.control()?;
        let mut record = self.store.require(&spec.name)?;
        let status = machine.status_under_control(&record)?;
        if !status.is_at_rest() {
            return Err(RuntimeError::WrongStatus { name: spec.name.clone(), status, action: "be changed" });
        }
        if record.spec.image_digest != spec.image_digest || record.spec.root_disk != spec.root_disk {
            return Err(RuntimeError::other("the image and the root disk's size of a sandbox are fixed"));
        }
        machine.forget_memory()?;
        record.spec = spec.clone();
        record.added_ports.clear();
        self.store.write(record)
    }

    fn modify(&self, name: &SandboxName, resources: Resources) -> Result<()> {
        let machine = self.machine(name);
        let _control = machine.control()?;
        let mut record = self.store.require(name)?;
        let status = machine.status_under_control(&record)?;
        if status != Status::Running {
            return Err(RuntimeError::WrongStatus { name: name.clone(), status, action: "change resources" });
        }
        if let Some(problem) = Faults::read(&self.store)?.modify_fails {
            return Err(RuntimeError::other(problem));
        }
        record.spec.resources = resources;
        self.store.write(record)
    }

    fn change_ports(&self, name: &SandboxName, open: &[PortForward], close: &[PortForward]) -> Result<()> {
        let machine = self.machine(name);
        let _control = machine.control()?;
        let mut record = self.store.require(name)?;
        record.spec.change_ports(open, close);
        record.added_ports.retain(|port| !close.contains(port));
        self.store.write(record)
    }

    fn add_ports(&self, name: &SandboxName, ports: &[PortForward]) -> Result<()> {
        let machine = self.machine(name);
        let _control = machine.control()?;
        let mut record = self.store.require(name)?;
        record.spec.change_ports(ports, &[]);
        record.added_ports.retain(|port| !ports.contains(port));
        record.added_ports.extend(ports);
        self.store.write(record)
    }

    fn change_secret_values(
        &self,
        name: &SandboxName,
        secrets: &[SecretSpec],
        _values: &SecretValues,
    ) -> Result<()> {
        let machine = self.machine(name);
        let _control = machine.control()?;
        let mut record = self.store.require(name)?;
        record.spec.secrets = secrets.to_vec();
        self.store.write(record)
    }

    fn inspect(&self, name: &SandboxName) -> Result<Option<SandboxInfo>> {
        self.store.read(name)?.map(|record| self.info(name, record)).transpose()
    }

    fn list(&self) -> Result<SandboxList> {
        let mut list = SandboxList::default();
        for name in self.store.names()? {
            let info = match name.parse() {
                Ok(parsed) => self.inspect(&parsed),
                Err(error) => Err(RuntimeError::BadRecord {
                    path: self.store.sandboxes().join(&name),
                    problem: format!("{error}"),
                }),
            };
            match info {
                Ok(Some(info)) => list.sandboxes.push(info),
                // Removed since the folder was read.
                Ok(None) => {}
                Err(RuntimeError::BadRecord { path, problem }) => {
                    list.broken.push(BrokenRecord { name, path, problem });
                }
                Err(error) => return Err(error),
            }
        }
        Ok(list)
    }

    fn exec(&self, name: &SandboxName, spec: &ExecSpec) -> Result<ExecSession> {
        exec::exec(&self.store, name, spec)
    }

    fn dial(&self, name: &SandboxName, port: u16) -> Result<Box<dyn Connection>> {
        self.machine(name).require_running("be connected to")?;
        connection::connect(self.store.guest_port(port))
    }

    fn hold(&self, name: &SandboxName) -> Result<Box<dyn Send>> {
        // There is no idle stop of its own that a client could put off.
        self.machine(name).require_running("be held")?;
        Ok(Box::new(()))
    }

    fn boot_id(&self, name: &SandboxName) -> Result<Option<String>> {
        let record = self.store.require(name)?;
        let machine = self.machine(name);
        if machine.status(&record)?.is_at_rest() || Faults::read(&self.store)?.boot_unnamed {
            return Ok(None);
        }
        machine.boot_id()
    }

    fn guest_boot(&self, name: &SandboxName) -> Result<Option<String>> {
        let record = self.store.require(name)?;
        let machine = self.machine(name);
        if machine.status(&record)?.is_at_rest() { Ok(None) } else { machine.guest_boot() }
    }

    fn logs(&self, name: &SandboxName) -> Result<Vec<LogFile>> {
        self.store.require(name)?;
        let file = |name: &'static str, path| LogFile { name, path };
        Ok(vec![file("console", self.store.console_log(name)), file("machine", self.store.machine_log(name))])
    }

    fn network_log(&self, name: &SandboxName) -> Result<Option<PathBuf>> {
        self.store.require(name)?;
        Ok(Some(self.store.network_log(name)))
    }

    fn disk_usage(&self, name: &SandboxName) -> Result<ByteSize> {
        self.store.require(name)?;
        Ok(ByteSize::from_bytes(store::bytes_on_disk(&self.store.sandbox(name))?))
    }
}

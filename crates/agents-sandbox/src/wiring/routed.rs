//! Several runtimes as one: each sandbox stays with the runtime that has its record, and the chosen one makes
//! the new ones.
//!
//! ```text
//! create, load_image ──► the chosen one
//! a name ──► whoever has its record      start of one at rest elsewhere ──► it moves to the chosen one
//! lists ──► all of them
//! ```
//!
//! A sandbox that moves keeps its home and its checkout; its root disk is made anew.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use sandbox_model::{
    ByteSize, Digest, ExecSpec, ImageRef, KeptSession, PortForward, Proxies, Resources, SandboxName,
    SandboxSpec, SecretSpec, SecretValues, SessionEnd, Status, TermSize,
};
use sandbox_runtime::{
    BrokenImage, Capabilities, Connection, ExecSession, ImageInfo, LogFile, Progress, Result, Runtime,
    RuntimeError, SandboxInfo, SandboxList, Slept, StopOutcome,
};

/// Gives the place of the chosen one. Asked once, and only when something is to be made or started.
pub type Choose = Box<dyn Fn() -> Result<usize> + Send + Sync>;

pub struct Routed {
    drivers: Vec<Arc<dyn Runtime>>,
    choose: Choose,
    chosen: OnceLock<usize>,
    tell: Box<dyn Fn(&str) + Send + Sync>,
}

impl Routed {
    /// `drivers` must not be empty; the first one answers for sandboxes that nobody has.
    pub fn new(
        drivers: Vec<Arc<dyn Runtime>>,
        choose: Choose,
        tell: Box<dyn Fn(&str) + Send + Sync>,
    ) -> Self {
        Self { drivers, choose, chosen: OnceLock::new(), tell }
    }

    fn chosen(&self) -> Result<&Arc<dyn Runtime>> {
        if let Some(place) = self.chosen.get() {
            return Ok(&self.drivers[*place]);
        }
        let place = (self.choose)()?;
        Ok(&self.drivers[*self.chosen.get_or_init(|| place)])
    }

    /// Whoever has a record of that name. A move that was interrupted leaves two: the one that runs, or has
    /// run, is meant.
    pub fn holder(&self, name: &SandboxName) -> Result<Option<&Arc<dyn Runtime>>> {
        let mut holders = Vec::new();
        for driver in &self.drivers {
            if driver.has(name)? {
                holders.push(driver);
            }
        }
        if holders.len() > 1 {
            let status = |driver: &Arc<dyn Runtime>| {
                driver.inspect(name).ok().flatten().map_or(Status::Created, |info| info.status)
            };
            let of = |wanted: &dyn Fn(&Status) -> bool| holders.iter().find(|driver| wanted(&status(driver)));
            let meant =
                of(&|status| !status.is_at_rest()).or_else(|| of(&|status| *status != Status::Created));
            return Ok(meant.or_else(|| holders.first()).copied());
        }
        Ok(holders.pop())
    }

    fn of(&self, name: &SandboxName) -> Result<&Arc<dyn Runtime>> {
        Ok(self.holder(name)?.unwrap_or(&self.drivers[0]))
    }

    /// Makes the sandbox on `to`, out of the record on `from`; `false` where `to` lacks its image.
    fn carry(&self, name: &SandboxName, from: &Arc<dyn Runtime>, to: &Arc<dyn Runtime>) -> Result<bool> {
        let Some(info) = from.inspect(name)? else {
            return Err(RuntimeError::NoSuchSandbox(name.clone()));
        };
        if !info.status.is_at_rest() {
            return Ok(false);
        }
        // What an interrupted move left.
        to.remove(name)?;
        match to.create(&info.spec) {
            Err(RuntimeError::NoSuchContent(_)) => return Ok(false),
            other => other?,
        }
        from.remove(name)?;
        (self.tell)(&format!(
            "{name} moves from {} to {}: its home stays, its root disk is made anew",
            from.name(),
            to.name()
        ));
        Ok(true)
    }
}

impl Runtime for Routed {
    fn name(&self) -> &'static str {
        self.chosen.get().map_or("auto", |place| self.drivers[*place].name())
    }

    fn name_for(&self, name: &SandboxName) -> Result<&'static str> {
        self.of(name)?.name_for(name)
    }

    /// What every one of them can: a sandbox may be any one's.
    fn capabilities(&self) -> Capabilities {
        let all = || self.drivers.iter().map(|driver| driver.capabilities());
        Capabilities {
            live_resources: all().all(|one| one.live_resources),
            dial: all().all(|one| one.dial),
            sleep: all().all(|one| one.sleep),
            sessions: all().all(|one| one.sessions),
            guest_root: all().all(|one| one.guest_root),
            workspace_quota: all().all(|one| one.workspace_quota),
            proxy: all().all(|one| one.proxy),
            live_ports: all().all(|one| one.live_ports),
            live_secrets: all().all(|one| one.live_secrets),
            ssh_agent: all().all(|one| one.ssh_agent),
        }
    }

    fn capabilities_for(&self, name: &SandboxName) -> Result<Capabilities> {
        self.of(name)?.capabilities_for(name)
    }

    fn has(&self, name: &SandboxName) -> Result<bool> {
        Ok(self.holder(name)?.is_some())
    }

    fn load_image(
        &self,
        reference: &ImageRef,
        digest: &Digest,
        archive: &mut dyn Read,
        progress: Progress<'_>,
    ) -> Result<ImageInfo> {
        self.chosen()?.load_image(reference, digest, archive, progress)
    }

    fn inspect_image(&self, reference: &ImageRef) -> Result<Option<ImageInfo>> {
        self.chosen()?.inspect_image(reference)
    }

    fn list_images(&self) -> Result<Vec<ImageInfo>> {
        let mut images: Vec<ImageInfo> = Vec::new();
        for driver in &self.drivers {
            for image in driver.list_images()? {
                let known = images
                    .iter_mut()
                    .find(|known| known.reference == image.reference && known.digest == image.digest);
                match known {
                    Some(known) => {
                        known.size = ByteSize::from_bytes(known.size.bytes() + image.size.bytes());
                    }
                    None => images.push(image),
                }
            }
        }
        Ok(images)
    }

    fn broken_images(&self) -> Result<Vec<BrokenImage>> {
        let mut broken = Vec::new();
        for driver in &self.drivers {
            broken.extend(driver.broken_images()?);
        }
        Ok(broken)
    }

    fn remove_image(&self, reference: &ImageRef) -> Result<()> {
        self.drivers.iter().try_for_each(|driver| driver.remove_image(reference))
    }

    fn export_image_dir(&self, digest: &Digest, guest_path: &str, to: &Path) -> Result<()> {
        let mut outcome = self.chosen()?.export_image_dir(digest, guest_path, to);
        for driver in &self.drivers {
            if !matches!(outcome, Err(RuntimeError::NoSuchContent(_))) {
                break;
            }
            outcome = driver.export_image_dir(digest, guest_path, to);
        }
        outcome
    }

    fn create(&self, spec: &SandboxSpec) -> Result<()> {
        if self.has(&spec.name)? {
            return Err(RuntimeError::Exists(spec.name.clone()));
        }
        self.chosen()?.create(spec)
    }

    fn start(&self, name: &SandboxName) -> Result<()> {
        self.start_with(name, &SecretValues::new(), None)
    }

    fn start_with(&self, name: &SandboxName, values: &SecretValues, proxies: Option<&Proxies>) -> Result<()> {
        let (holder, chosen) = (self.of(name)?, self.chosen()?);
        if !Arc::ptr_eq(holder, chosen) && self.carry(name, holder, chosen)? {
            return chosen.start_with(name, values, proxies);
        }
        holder.start_with(name, values, proxies)
    }

    fn stop(&self, name: &SandboxName, grace: Duration) -> Result<StopOutcome> {
        self.of(name)?.stop(name, grace)
    }

    fn stop_boot(&self, name: &SandboxName, boot_id: &str, grace: Duration) -> Result<StopOutcome> {
        self.of(name)?.stop_boot(name, boot_id, grace)
    }

    fn sleep(&self, name: &SandboxName, boot_id: Option<&str>, grace: Duration) -> Result<Slept> {
        self.of(name)?.sleep(name, boot_id, grace)
    }

    fn forget_memory(&self, name: &SandboxName) -> Result<Option<ByteSize>> {
        self.of(name)?.forget_memory(name)
    }

    fn forget_memory_before(&self, name: &SandboxName, time: i64) -> Result<Option<ByteSize>> {
        self.of(name)?.forget_memory_before(name, time)
    }

    fn kill(&self, name: &SandboxName) -> Result<()> {
        self.of(name)?.kill(name)
    }

    fn call_off(&self, name: &SandboxName) -> Result<()> {
        self.of(name)?.call_off(name)
    }

    fn remove(&self, name: &SandboxName) -> Result<()> {
        self.drivers
            .iter()
            .try_for_each(|driver| if driver.has(name)? { driver.remove(name) } else { Ok(()) })
    }

    fn update(&self, spec: &SandboxSpec) -> Result<()> {
        self.of(&spec.name)?.update(spec)
    }

    fn modify(&self, name: &SandboxName, resources: Resources) -> Result<()> {
        self.of(name)?.modify(name, resources)
    }

    fn inspect(&self, name: &SandboxName) -> Result<Option<SandboxInfo>> {
        self.of(name)?.inspect(name)
    }

    fn list(&self) -> Result<SandboxList> {
        let mut all = SandboxList::default();
        for driver in &self.drivers {
            let list = driver.list()?;
            for info in list.sandboxes {
                let twice = all.sandboxes.iter().any(|known| known.spec.name == info.spec.name);
                if !twice {
                    all.sandboxes.push(info);
                } else if let Some(meant) = self.inspect(&info.spec.name.clone())? {
                    all.sandboxes.retain(|known| known.spec.name != meant.spec.name);
                    all.sandboxes.push(meant);
                }
            }
            all.broken.extend(list.broken);
        }
        all.sandboxes.sort_by(|a, b| a.spec.name.cmp(&b.spec.name));
        Ok(all)
    }

    fn exec(&self, name: &SandboxName, spec: &ExecSpec) -> Result<ExecSession> {
        self.of(name)?.exec(name, spec)
    }

    fn sessions(&self, name: &SandboxName) -> Result<Vec<KeptSession>> {
        self.of(name)?.sessions(name)
    }

    fn attach(&self, name: &SandboxName, session: u32, size: TermSize) -> Result<ExecSession> {
        self.of(name)?.attach(name, session, size)
    }

    fn end_session(&self, name: &SandboxName, session: u32) -> Result<SessionEnd> {
        self.of(name)?.end_session(name, session)
    }

    fn dial(&self, name: &SandboxName, port: u16) -> Result<Box<dyn Connection>> {
        self.of(name)?.dial(name, port)
    }

    fn change_ports(&self, name: &SandboxName, open: &[PortForward], close: &[PortForward]) -> Result<()> {
        self.of(name)?.change_ports(name, open, close)
    }

    fn add_ports(&self, name: &SandboxName, ports: &[PortForward]) -> Result<()> {
        self.of(name)?.add_ports(name, ports)
    }

    fn change_secret_values(
        &self,
        name: &SandboxName,
        secrets: &[SecretSpec],
        values: &SecretValues,
    ) -> Result<()> {
        self.of(name)?.change_secret_values(name, secrets, values)
    }

    fn accept_ssh_agent(&self, name: &SandboxName) -> Result<Box<dyn Connection>> {
        self.of(name)?.accept_ssh_agent(name)
    }

    fn hold(&self, name: &SandboxName) -> Result<Box<dyn Send>> {
        self.of(name)?.hold(name)
    }

    fn boot_id(&self, name: &SandboxName) -> Result<Option<String>> {
        self.of(name)?.boot_id(name)
    }

    fn guest_boot(&self, name: &SandboxName) -> Result<Option<String>> {
        self.of(name)?.guest_boot(name)
    }

    fn emulated(&self, name: &SandboxName) -> Result<bool> {
        self.of(name)?.emulated(name)
    }

    fn logs(&self, name: &SandboxName) -> Result<Vec<LogFile>> {
        self.of(name)?.logs(name)
    }

    fn network_log(&self, name: &SandboxName) -> Result<Option<PathBuf>> {
        self.of(name)?.network_log(name)
    }

    fn disk_usage(&self, name: &SandboxName) -> Result<ByteSize> {
        self.of(name)?.disk_usage(name)
    }
}

#[cfg(test)]
mod tests;

//! What a runtime is. Every driver obeys [`Runtime`]; nothing above it knows which one it has.
//!
//! Methods are blocking. Names are checked by their types. Each method says in which [`Status`] it is
//! legal and whether repeating it is harmless; a call in another status returns
//! [`RuntimeError::WrongStatus`] and changes nothing.

#[cfg(feature = "contract-suite")]
pub mod contract;
mod error;
#[cfg(feature = "fake")]
pub mod fake;
mod session;

use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use sandbox_model::{
    ByteSize, Digest, ExecSpec, ImageRef, KeptSession, PortForward, Proxies, Resources, SandboxName,
    SandboxSpec, SecretSpec, SecretValues, SessionEnd, Status, TermSize,
};

pub use error::RuntimeError;
pub use session::{Collected, Connection, ExecEvent, ExecInput, ExecOutput, ExecSession, gather};

/// What nearly every call of a runtime comes to.
pub type Result<T, E = RuntimeError> = std::result::Result<T, E>;

/// What a driver can do, as data: callers ask for the power, never for the driver's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// CPU count and memory can change while a sandbox runs.
    pub live_resources: bool,
    /// `dial` reaches TCP ports on the guest's loopback without publishing them.
    pub dial: bool,
    /// [`Runtime::sleep`] can save the memory of a sandbox whose spec allows it, and a start goes on from it.
    pub sleep: bool,
    /// A command on a terminal can outlive its client: [`ExecSpec::keep`], [`Runtime::sessions`],
    /// [`Runtime::attach`].
    pub sessions: bool,
    /// A sandbox has a root of its own: its files, `/tmp`, users and process table are not the host's.
    /// Every real driver has this.
    pub guest_root: bool,
    /// What the guest adds to `/workspace` is limited by the spec's quota.
    pub workspace_quota: bool,
    /// What the guest may reach is reached through the host's proxy.
    pub proxy: bool,
    /// [`Runtime::change_ports`] opens and closes published ports of a running sandbox.
    pub live_ports: bool,
    /// [`Runtime::change_secret_values`] gives a running sandbox other values of its secrets.
    pub live_secrets: bool,
    /// Programs in the guest can reach the user's ssh-agent: [`Runtime::accept_ssh_agent`].
    pub ssh_agent: bool,
}

/// Receives a step's progress: bytes done, and the total where it is known.
pub type Progress<'a> = &'a mut dyn FnMut(u64, Option<u64>);

/// A reference that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenImage {
    /// The record that is damaged; the name is in it. A build of that name, or its removal, mends it.
    pub reference_file: PathBuf,
    /// Why it cannot be read, for people.
    pub problem: String,
}

/// What a runtime knows of an image that it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageInfo {
    /// The name that this is about; the same content may have others.
    pub reference: ImageRef,
    /// The engine's image id, as given to [`Runtime::load_image`].
    pub digest: Digest,
    /// Bytes on disk in the runtime's store.
    pub size: ByteSize,
    /// Seconds since 1970.
    pub created: i64,
    /// `KEY=value` pairs the image sets for every command.
    pub env: Vec<(String, String)>,
    /// Labels of the image.
    pub labels: std::collections::BTreeMap<String, String>,
}

/// A sandbox as it is at the moment of the question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxInfo {
    /// What it was made with, or last changed to.
    pub spec: SandboxSpec,
    /// Computed now.
    pub status: Status,
    /// Seconds since 1970: made, and last started, stopped or changed.
    pub created: i64,
    /// Likewise; before any start or change it is `created`.
    pub updated: i64,
    /// Why it is `crashed`, where that is known.
    pub problem: Option<String>,
    /// Bytes on disk of its saved memory, where it sleeps: the next start goes on where it was.
    pub saved_memory: Option<ByteSize>,
    /// Those of the spec's ports that [`Runtime::add_ports`] opened.
    pub added_ports: Vec<PortForward>,
}

/// A record that could not be read: one broken row, never a failed list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenRecord {
    /// The sandbox's, as its file or folder is called.
    pub name: String,
    /// Its folder or record, for whoever looks into it.
    pub path: PathBuf,
    /// Why it cannot be read, for people.
    pub problem: String,
}

/// What [`Runtime::list`] finds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SandboxList {
    /// Those whose record can be read, at rest or not.
    pub sandboxes: Vec<SandboxInfo>,
    /// The others.
    pub broken: Vec<BrokenRecord>,
}

/// How a graceful stop ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopOutcome {
    /// The guest ended by itself, with everything on the disks.
    Graceful,
    /// The guest did not end within the grace and was powered off.
    Forced,
    /// There was nothing to stop.
    AlreadyAtRest,
    /// Its memory is saved.
    Asleep,
}

/// How a stop ended that was to save the memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slept {
    /// How it ended; [`StopOutcome::Asleep`] where the memory is saved.
    pub outcome: StopOutcome,
    /// Why the memory is not saved, where this very sandbox or its host is the reason.
    pub why_not: Option<String>,
}

impl From<StopOutcome> for Slept {
    fn from(outcome: StopOutcome) -> Self {
        Self { outcome, why_not: None }
    }
}

/// A log of one sandbox, by a name for people: `console`, `machine`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFile {
    /// As users ask for it.
    pub name: &'static str,
    /// Where it is written; there need be no file yet.
    pub path: PathBuf,
}

/// Whether there is a value for each of the spec's secrets.
pub fn check_secrets(spec: &SandboxSpec, values: &SecretValues) -> Result<()> {
    match spec.secrets.iter().find(|secret| !values.contains_key(&secret.name)) {
        Some(secret) => {
            Err(RuntimeError::NoSecretValue { name: spec.name.clone(), secret: secret.name.clone() })
        }
        None => Ok(()),
    }
}

/// A maker of virtual machines.
pub trait Runtime: Send + Sync {
    /// `qemu`, `microsandbox`, `fake`: for messages and records, never for decisions.
    fn name(&self) -> &'static str;

    /// Which one has this sandbox, where several are behind one: for messages and records, as [`Self::name`].
    fn name_for(&self, _name: &SandboxName) -> Result<&'static str> {
        Ok(self.name())
    }

    /// What the driver can do on this host. Where several are behind one: what each of them can, for a new
    /// sandbox may be any one's.
    fn capabilities(&self) -> Capabilities;

    /// What the driver that has this sandbox can do, where several are behind one.
    fn capabilities_for(&self, _name: &SandboxName) -> Result<Capabilities> {
        Ok(self.capabilities())
    }

    /// Whether there is a sandbox of that name, be its record readable or not.
    fn has(&self, name: &SandboxName) -> Result<bool> {
        match self.inspect(name) {
            Err(error) if error.is_unreadable_record() => Ok(true),
            other => Ok(other?.is_some()),
        }
    }

    /// Stores the first image of a docker archive (`docker save`; not compressed) under `reference`.
    ///
    /// `digest` is the engine's id of that image. An image with this digest that is already stored is
    /// only tagged, and `archive` is not read. Repeating is harmless. Sandboxes made from the reference's
    /// former image keep it.
    fn load_image(
        &self,
        reference: &ImageRef,
        digest: &Digest,
        archive: &mut dyn Read,
        progress: Progress<'_>,
    ) -> Result<ImageInfo>;

    /// What `reference` means. `None` where it was never given, or was removed.
    fn inspect_image(&self, reference: &ImageRef) -> Result<Option<ImageInfo>>;

    /// Those that can be read; [`Runtime::broken_images`] has the others.
    fn list_images(&self) -> Result<Vec<ImageInfo>>;

    /// References whose record cannot be read. While there is one, no content counts as unused.
    fn broken_images(&self) -> Result<Vec<BrokenImage>> {
        Ok(Vec::new())
    }

    /// Forgets a reference; the content goes when no reference and no sandbox uses it. Harmless to repeat.
    fn remove_image(&self, reference: &ImageRef) -> Result<()>;

    /// Copies one directory of an image (with owners, modes and links as far as the caller's rights go)
    /// into the empty or missing folder `to`. Used to fill a new home volume.
    fn export_image_dir(&self, digest: &Digest, guest_path: &str, to: &std::path::Path) -> Result<()>;

    /// Makes a sandbox, not started. The image must be loaded and the home disk must exist.
    /// Fails with [`RuntimeError::Exists`] when the name is taken.
    fn create(&self, spec: &SandboxSpec) -> Result<()>;

    /// Boots, or wakes where memory is saved, and returns when commands can run. Memory that cannot be used
    /// any more is dropped, and the boot is an ordinary one. Legal in created, stopped, crashed; harmless in running;
    /// in starting it waits for the boot under way.
    ///
    /// A sandbox whose spec has secrets needs their values: see [`Runtime::start_with`].
    fn start(&self, name: &SandboxName) -> Result<()>;

    /// [`Runtime::start`] with the values of the spec's secrets, and through `proxies` where
    /// [`Capabilities::proxy`]; they hold for this boot, in no record. The values stay in the memory of whoever puts
    /// them in: no record, argument, variable or file of the driver's holds one, and no guest does. Fails with
    /// [`RuntimeError::NoSecretValue`] where one is missing and there is something to start.
    fn start_with(&self, name: &SandboxName, values: &SecretValues, proxies: Option<&Proxies>) -> Result<()>;

    /// Powers off gracefully, by force after `grace`. Harmless when at rest.
    fn stop(&self, name: &SandboxName, grace: Duration) -> Result<StopOutcome>;

    /// Like [`Runtime::stop`], but only the boot that [`Runtime::boot_id`] named: whoever decided on what
    /// it knew of one boot must not end the next, which someone may have started meanwhile. Another boot,
    /// or none, is [`StopOutcome::AlreadyAtRest`]. A driver that can, checks and stops in one step.
    fn stop_boot(&self, name: &SandboxName, boot_id: &str, grace: Duration) -> Result<StopOutcome> {
        if self.boot_id(name)?.as_deref() == Some(boot_id) {
            self.stop(name, grace)
        } else {
            Ok(StopOutcome::AlreadyAtRest)
        }
    }

    /// Stops with the memory saved where [`Capabilities::sleep`] and the spec allow it; else like
    /// [`Runtime::stop`], or [`Runtime::stop_boot`] where a boot is named. Commands that someone attends lose
    /// their client, all others go on at the next start.
    fn sleep(&self, name: &SandboxName, boot_id: Option<&str>, grace: Duration) -> Result<Slept> {
        let outcome = match boot_id {
            Some(boot_id) => self.stop_boot(name, boot_id, grace)?,
            None => self.stop(name, grace)?,
        };
        Ok(Slept { outcome, why_not: None })
    }

    /// Drops the saved memory of a sandbox at rest, so that its next start boots; how many bytes that gave
    /// back, or `None` where there was no memory. Harmless to repeat.
    fn forget_memory(&self, _name: &SandboxName) -> Result<Option<ByteSize>> {
        Ok(None)
    }

    /// [`Runtime::forget_memory`] of what was saved before `time`, in seconds since 1970. What is newer stays, also
    /// where it was saved a moment ago.
    fn forget_memory_before(&self, _name: &SandboxName, _time: i64) -> Result<Option<ByteSize>> {
        Ok(None)
    }

    /// Powers off at once. Harmless when at rest. Legal in every status.
    fn kill(&self, name: &SandboxName) -> Result<()>;

    /// Ends a start that nobody waits for any more. A guest that was waking and has left its saved memory behind
    /// falls asleep again, where the runtime can do that. Harmless when at rest.
    fn call_off(&self, name: &SandboxName) -> Result<()> {
        self.kill(name)
    }

    /// Deletes a sandbox at rest with its root disk. Never touches the home disk or the workspace.
    /// Harmless when there is none.
    fn remove(&self, name: &SandboxName) -> Result<()>;

    /// Changes the record of a sandbox at rest; the root disk stays, saved memory does not. The image digest and the root disk's
    /// size must be those it was created with.
    fn update(&self, spec: &SandboxSpec) -> Result<()>;

    /// Changes CPUs and memory of a running sandbox, where [`Capabilities::live_resources`].
    fn modify(&self, name: &SandboxName, resources: Resources) -> Result<()>;

    /// Legal in every status, and changes nothing; `None` where there is no sandbox. A record that cannot be
    /// read is an error.
    fn inspect(&self, name: &SandboxName) -> Result<Option<SandboxInfo>>;

    /// Every sandbox of this runtime, in any status. A record that cannot be read is in
    /// [`SandboxList::broken`], and fails nothing.
    fn list(&self) -> Result<SandboxList>;

    /// Runs a command in a running sandbox (or one that is starting: it waits).
    fn exec(&self, name: &SandboxName, spec: &ExecSpec) -> Result<ExecSession>;

    /// The commands of a running sandbox that are kept, in the order of their begin, where
    /// [`Capabilities::sessions`]. One that ended while nobody was attached is among them, until somebody
    /// attaches or the sandbox stops; of many, the last few.
    fn sessions(&self, _name: &SandboxName) -> Result<Vec<KeptSession>> {
        Ok(Vec::new())
    }

    /// Joins a kept command. What it shows comes first, from the terminal's point of view: its screen as it
    /// is, above it what was there before, within bounds; then whatever it writes. With several clients,
    /// each gets everything, each may type, and the terminal is as large as the smallest of theirs. One that
    /// reads too slowly is left behind, and gets the screen as it is then. One that has ended gives its last
    /// screen and its end, and is forgotten. Dropping the session leaves the command as it is.
    fn attach(&self, name: &SandboxName, session: u32, _size: TermSize) -> Result<ExecSession> {
        Err(RuntimeError::NoSuchSession { name: name.clone(), session })
    }

    /// Hangs a kept command up, and ends everything on its terminal by force where it does not leave within
    /// seconds; forgets one that has ended.
    fn end_session(&self, name: &SandboxName, session: u32) -> Result<SessionEnd> {
        Err(RuntimeError::NoSuchSession { name: name.clone(), session })
    }

    /// Connects to a TCP port on the guest's loopback, where [`Capabilities::dial`].
    fn dial(&self, name: &SandboxName, port: u16) -> Result<Box<dyn Connection>>;

    /// Closes published ports and opens others, at once where the sandbox runs, and in its record; all or none,
    /// where [`Capabilities::live_ports`]. Connections through a port that closes go on. At rest this leaves saved
    /// memory as it is. Legal in every status but draining; harmless to repeat.
    fn change_ports(&self, _name: &SandboxName, _open: &[PortForward], _close: &[PortForward]) -> Result<()> {
        Err(RuntimeError::Unsupported("the ports of a sandbox change at its next start"))
    }

    /// [`Runtime::change_ports`] for ports that no setting has: its record tells them apart
    /// ([`SandboxInfo::added_ports`]) until they are closed, or [`Runtime::update`] changes it.
    fn add_ports(&self, _name: &SandboxName, _ports: &[PortForward]) -> Result<()> {
        Err(RuntimeError::Unsupported("the ports of a sandbox change at its next start"))
    }

    /// Gives a running sandbox other values of the secrets that it has, for connections that begin from now on,
    /// where [`Capabilities::live_secrets`]. `secrets` are its spec's with the fingerprints of the new values, and
    /// nothing else in them changes; `values` has each of them.
    fn change_secret_values(
        &self,
        _name: &SandboxName,
        _secrets: &[SecretSpec],
        _values: &SecretValues,
    ) -> Result<()> {
        Err(RuntimeError::Unsupported("the secrets of a sandbox change at its next start"))
    }

    /// Waits for the next program in a running guest that connects to [`sandbox_model::GUEST_SSH_AGENT`], for a
    /// sandbox whose spec has an ssh-agent and where [`Capabilities::ssh_agent`]. Blocks for as long as there is
    /// none; an error when the boot ends.
    fn accept_ssh_agent(&self, _name: &SandboxName) -> Result<Box<dyn Connection>> {
        Err(RuntimeError::Unsupported("this runtime hands no ssh-agent to a sandbox"))
    }

    /// Counts as a client until dropped, so that the runtime's own idle stop does not fire.
    fn hold(&self, name: &SandboxName) -> Result<Box<dyn Send>>;

    /// Another word for every start, of a sandbox that sleeps too; `None` at rest, and on the way there.
    fn boot_id(&self, name: &SandboxName) -> Result<Option<String>>;

    /// Another word for every boot of the guest, and the same again when it has slept: what was done once a boot
    /// is still done. `None` like the other.
    fn guest_boot(&self, name: &SandboxName) -> Result<Option<String>> {
        self.boot_id(name)
    }

    /// Whether a running sandbox does without hardware virtualization, so that programs which compile as
    /// they run had better compile less.
    fn emulated(&self, _name: &SandboxName) -> Result<bool> {
        Ok(false)
    }

    /// The logs there are, whether the sandbox runs or not.
    fn logs(&self, name: &SandboxName) -> Result<Vec<LogFile>>;

    /// Where events of the sandbox's network are written, one JSON document a line; `None` where the driver
    /// keeps no record. There need be no file yet.
    fn network_log(&self, _name: &SandboxName) -> Result<Option<PathBuf>> {
        Ok(None)
    }

    /// Bytes on disk of one sandbox (root disk, logs), without home and image.
    fn disk_usage(&self, name: &SandboxName) -> Result<ByteSize>;
}

//! The cases that every driver has to pass, unchanged.
//!
//! A driver's tests implement [`Harness`] and run every case of [`cases`], each on sandboxes of its own;
//! cases may run in parallel and in several processes. A case that needs a power the driver lacks is not
//! in the list; that the driver then refuses instead of pretending is a case of its own.
//!
//! The harness's image needs `sh`, `stty`, `perl`, `sha256sum` and the usual small tools, and the users
//! `root` and `dev`.

mod check;
mod exec;
mod files;
mod image_archive;
mod images;
mod input;
mod life;
mod network;
mod records;
mod sandbox;
mod sessions;
mod shared_folder;
mod sleep;
mod terminal;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use sandbox_model::{ByteSize, Digest, HomeDisk, ImageRef, Resources, SandboxName, SandboxSpec};

use crate::{Capabilities, Runtime};

pub use check::{Failure, Outcome};
pub use image_archive::{ArchiveFile, ImageArchive};
use sandbox::Sandbox;

/// An image that boots.
#[derive(Debug, Clone)]
pub struct TestImage {
    /// The name under which cases load it.
    pub reference: ImageRef,
    /// The id of its content, as the archive has it.
    pub digest: Digest,
    /// A docker archive.
    pub archive: PathBuf,
    /// Who `dev` is in it.
    pub dev_uid: u32,
    /// The group of `dev` in it.
    pub dev_gid: u32,
}

/// What a driver's tests give the suite.
pub trait Harness: Sync {
    /// The driver under test, the same at every call.
    fn runtime(&self) -> &dyn Runtime;

    /// The image that the suite's sandboxes are made from.
    fn image(&self) -> &TestImage;

    /// A new, empty folder that belongs to the caller, or to whom the workspace shall belong.
    fn workspace_dir(&self) -> io::Result<PathBuf>;

    /// A new home disk, filled with nothing but what `dev` needs to own it.
    fn home_disk(&self) -> io::Result<HomeDisk>;

    /// Kills the machine of a running sandbox as a crash would.
    fn pull_plug(&self, name: &SandboxName) -> io::Result<()>;

    /// Makes the record of one sandbox unreadable.
    fn break_record(&self, name: &SandboxName) -> io::Result<()>;

    /// Whether [`Harness::break_record`] is possible: not where all records are one database.
    fn can_break_records(&self) -> bool {
        true
    }

    /// A sandbox that runs and that the caller lends to the cases which leave one as they found it; without
    /// one, each of them boots its own. See [`lendable`].
    fn lend(&self) -> Option<SandboxSpec> {
        None
    }

    /// What this machine may add to the second within which a change of the workspace shows.
    fn news_delay(&self) -> Duration {
        Duration::from_millis(500)
    }

    /// How many bytes are much: more than every buffer on the way holds together.
    fn bulk(&self) -> usize {
        100_000_000
    }

    /// What the suite's sandboxes are made with.
    fn resources(&self) -> Resources {
        Resources { cpus: 1, memory: ByteSize::mib(512) }
    }

    /// How long one step (a boot, a command) may take before the case fails.
    fn patience(&self) -> Duration {
        Duration::from_mins(1)
    }
}

/// What a case needs beyond the contract's core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Power {
    /// [`Capabilities::live_resources`].
    LiveResources,
    /// [`Capabilities::dial`].
    Dial,
    /// [`Capabilities::guest_root`].
    GuestRoot,
    /// [`Capabilities::workspace_quota`].
    WorkspaceQuota,
    /// [`Capabilities::sleep`].
    Sleep,
    /// [`Capabilities::sessions`].
    Sessions,
    /// Both of these: what is kept outlives a sleep.
    SleepingSessions,
    /// Both [`Capabilities::sleep`] and [`Capabilities::live_ports`].
    SleepingPorts,
    /// [`Capabilities::live_ports`], of a guest that has ports of its own.
    LivePorts,
    /// [`Harness::can_break_records`].
    BreakableRecords,
}

impl Power {
    fn is_in(self, capabilities: Capabilities, harness: &dyn Harness) -> bool {
        match self {
            Self::LiveResources => capabilities.live_resources,
            Self::Dial => capabilities.dial,
            Self::GuestRoot => capabilities.guest_root,
            Self::WorkspaceQuota => capabilities.workspace_quota,
            Self::Sleep => capabilities.sleep,
            Self::Sessions => capabilities.sessions,
            Self::SleepingSessions => capabilities.sleep && capabilities.sessions,
            Self::SleepingPorts => capabilities.sleep && capabilities.live_ports,
            Self::LivePorts => capabilities.live_ports && capabilities.guest_root,
            Self::BreakableRecords => harness.can_break_records(),
        }
    }
}

/// One rule of the contract.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// The function's own, as reports and filters use it.
    pub name: &'static str,
    /// `None` for what every driver has to do.
    pub needs: Option<Power>,
    /// It leaves its sandbox as it found it, so that it can do with a lent one.
    pub borrows: bool,
    /// Makes what it needs, and leaves nothing behind.
    pub run: fn(&dyn Harness) -> Outcome,
}

impl Case {
    const fn core(name: &'static str, run: fn(&dyn Harness) -> Outcome) -> Self {
        Self { name, needs: None, borrows: false, run }
    }

    const fn with(power: Power, name: &'static str, run: fn(&dyn Harness) -> Outcome) -> Self {
        Self { name, needs: Some(power), borrows: false, run }
    }

    const fn borrowing(self) -> Self {
        Self { borrows: true, ..self }
    }
}

/// Boots a sandbox for [`Harness::lend`], and leaves it to the caller.
pub fn lendable(harness: &dyn Harness) -> Outcome<SandboxSpec> {
    let sandbox = Sandbox::started(harness)?;
    let spec = sandbox.spec.clone();
    std::mem::forget(sandbox);
    Ok(spec)
}

/// Every case, whatever it needs.
pub fn all_cases() -> Vec<Case> {
    [
        images::CASES,
        records::CASES,
        life::CASES,
        sleep::CASES,
        exec::CASES,
        input::CASES,
        terminal::CASES,
        sessions::CASES,
        shared_folder::CASES,
        files::CASES,
        network::CASES,
    ]
    .concat()
}

/// The cases that this driver has the powers for.
pub fn cases(harness: &dyn Harness) -> Vec<Case> {
    let capabilities = harness.runtime().capabilities();
    let applies = |case: &Case| case.needs.is_none_or(|power| power.is_in(capabilities, harness));
    all_cases().into_iter().filter(applies).collect()
}

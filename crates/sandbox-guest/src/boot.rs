//! From an initrd with one file to a sandbox.
//!
//! ```text
//! base (read-only) + disk (ext4: upper, work) ──overlay──► /   then /proc /sys /dev …   then the requested mounts
//! ```

mod addresses;
mod engines;
mod etc;
mod foreign;
mod mounts;
mod netlink;
mod network;
mod root;

pub use foreign::bind_engines;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use nix::sys::signal::kill;
use nix::unistd::{Pid, sethostname};
use sandbox_wire::{BootConfig, GuestReply};

use crate::console::say;
use crate::guest::{Guest, Settings};
use crate::init::ROOT_IS_SWITCHED;
use crate::machine::{BootError, Machine, Steps};
use crate::{clock, connections, exec, session, shutdown};

/// A mount whose other side does not answer never returns. The host's own deadline is the net below.
const BOOT_WITHIN: Duration = Duration::from_secs(30);

/// Serves [`sandbox_wire::GuestRequest::Boot`]: once, within half a minute, or the reply names the step that
/// hangs.
pub async fn answer(config: BootConfig, guest: &Arc<Guest>) -> GuestReply {
    if !guest.claim_boot() {
        return GuestReply::Failed("this guest has been booted already".into());
    }
    let settings = Settings { env: config.env.clone(), user: config.user.clone() };
    let ssh_agent = config.ssh_agent;
    let steps = Arc::new(Steps::default());
    let (machine, work_steps) = (Arc::clone(&guest.machine), Arc::clone(&steps));
    let work = session::blocking(move || machine.boot(&config, &work_steps));
    let Ok(reply) = tokio::time::timeout(BOOT_WITHIN, work).await else {
        let secs = BOOT_WITHIN.as_secs();
        return GuestReply::Failed(format!("{}: not done after {secs} seconds", steps.current()));
    };
    if reply == GuestReply::Ok {
        if ssh_agent && let Err(error) = guest.ssh_agent.listen(&settings.user, guest.machine.ssh_agent()) {
            return GuestReply::Failed(format!("the socket of the ssh-agent: {error}"));
        }
        guest.booted(settings);
        exec::rehearse(guest);
    } else {
        say(format_args!("booting failed: {reply:?}"));
    }
    reply
}

/// The machine whose process 1 is our parent.
#[derive(Debug, Default)]
pub struct LiveMachine {
    /// The writable disk's own mount. No path leads to it once the root is switched.
    disk: OnceLock<OwnedFd>,
}

impl Machine for LiveMachine {
    fn boot(&self, config: &BootConfig, steps: &Steps) -> Result<(), BootError> {
        step(steps, "setting the clock", || clock::set(config.unix_nanos))?;
        step(steps, "setting the host name", || Ok(sethostname(&config.hostname)?))?;
        let disk = root::switch(config, steps)?;
        step(steps, "moving process 1 to the new root", || Ok(kill(Pid::from_raw(1), ROOT_IS_SWITCHED)?))?;
        mounts::standard(steps)?;
        for wanted in &config.mounts {
            mounts::requested(wanted, steps)?;
        }
        mounts::clear_stage(&config.mounts, steps)?;
        engines::bind(&root::path_of(self.disk.get_or_init(|| disk)), steps)?;
        etc::write(config, steps)?;
        network::configure(config.network.as_ref(), steps)
    }

    fn set_clock(&self, unix_nanos: u64) -> io::Result<()> {
        clock::set(unix_nanos)
    }

    fn settle(&self) -> io::Result<()> {
        nix::unistd::sync();
        Ok(())
    }

    fn wake(&self, unix_nanos: u64) -> io::Result<()> {
        clock::set(unix_nanos)?;
        let lost = connections::to_other_machines()?;
        // It takes a while to find who holds them, and the host waits for this guest.
        std::thread::spawn(move || match connections::reset(lost) {
            Ok(count) => say(format_args!("awake; {count} connections reset")),
            Err(error) => say(format_args!("awake; connections are not reset: {error}")),
        });
        Ok(())
    }

    fn shut_down(&self, grace: Duration) {
        shutdown::end_processes(grace);
        shutdown::leave_disks_clean();
        if let Some(disk) = self.disk.get() {
            let path = root::path_of(disk);
            if let Err(error) = shutdown::remount_readonly(&path) {
                say(format_args!("the writable disk stays busy: {error}"));
            }
        }
    }
}

/// Runs one step under its name.
fn step<T>(
    steps: &Steps,
    name: impl Into<String>,
    action: impl FnOnce() -> io::Result<T>,
) -> Result<T, BootError> {
    let name = name.into();
    steps.enter(name.as_str());
    action().map_err(|source| BootError::Step { step: name, source })
}

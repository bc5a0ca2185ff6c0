//! Booting: parts up, guest program reached, guest told what to become.

use std::time::Duration;

use sandbox_guest_client::Link;
use sandbox_wire::{GuestReply, GuestRequest};
use tokio::sync::watch;

use super::boot::boot_config;
use super::config::{Accel, MachineConfig};
use super::console;
use super::link;
use super::part_end::{TOLD_WITHIN, Watched};
use super::parts::{Parts, Ram};
use super::wake::{self, Waking};
use crate::files::MachineFiles;
use crate::{TscMeasurement, memory};
use sandbox_guest_client::async_frames::{read_message, write_message};

/// A machine whose guest answers.
pub struct Started {
    pub parts: Parts,
    pub link: Link,
    pub accel: Accel,
    /// What the user should know.
    pub notes: Vec<String>,
    /// It went on from saved memory.
    pub woken: bool,
}

/// Wakes, or boots on the first accelerator that works; the last one gets a second try, because a boot that hangs
/// under emulation is rarely followed by another.
///
/// `fragile` holds while what the guest was at is in no file any more, and the guest does not answer yet.
pub async fn start(
    files: &MachineFiles,
    config: &MachineConfig,
    fragile: &watch::Sender<bool>,
) -> Result<Started, String> {
    let mut notes = Vec::new();
    // Goes on while it is looked whether there is anything to wake.
    let counter = TscMeasurement::begin();
    match wake::wake(files, config, fragile).await? {
        Waking::Awake(awake) => {
            let (parts, link, accel) = *awake;
            return Ok(Started { parts, link, accel, notes, woken: true });
        }
        Waking::Failed(problem) => {
            notes.push(format!("the saved memory could not be used, so the sandbox boots: {problem}"));
        }
        Waking::None => {}
    }
    // What a machine that was killed left behind is no memory.
    memory::forget(files).map_err(|error| error.to_string())?;
    let mut tries = config.accels.clone();
    tries.extend(config.accels.last());
    let deadline = Duration::from_secs(config.boot_deadline_secs);
    let mut problem = "no accelerator to try".to_string();
    for (index, accel) in tries.iter().copied().enumerate() {
        // Only an emulated guest is told the rate.
        let tsc_khz = (accel == Accel::Tcg).then(|| counter.khz()).flatten();
        let ram = Ram::new(config, tsc_khz).map_err(|error| format!("no memory for the guest: {error}"))?;
        let mut parts = match Parts::start(files, config, accel, ram, false).await {
            Ok(parts) => parts,
            Err(error) => return Err(error.to_string()),
        };
        problem = match tokio::time::timeout(deadline, boot(files, config, &mut parts)).await {
            Ok(Ok(link)) => return Ok(Started { parts, link, accel, notes, woken: false }),
            Ok(Err(problem)) => problem,
            Err(_) => format!("the guest did not answer within {} s", deadline.as_secs()),
        };
        parts.end().await;
        if index + 1 < tries.len() {
            let note = format!(
                "a boot with {} failed ({problem}); trying {}",
                accel.as_str(),
                tries[index + 1].as_str()
            );
            tracing::warn!("{note}");
            notes.push(note);
        }
    }
    Err(problem)
}

/// Keeps the guest's console as a log.
pub fn watch_console(files: &MachineFiles, console: std::os::unix::net::UnixStream) {
    let log = files.console_log();
    tokio::spawn(async move {
        if let Err(error) = console::record(console, &log).await {
            tracing::warn!("the console log ended: {error}");
        }
    });
}

async fn boot(files: &MachineFiles, config: &MachineConfig, parts: &mut Parts) -> Result<Link, String> {
    let fault = |what: &str, error: &dyn std::fmt::Display| format!("{what}: {error}");
    let missing = || "a part was started twice".to_string();
    let console = parts.console.take().ok_or_else(missing)?;
    watch_console(files, console);
    let link = link::open(parts.link.take().ok_or_else(missing)?).map_err(|e| fault("the guest link", &e))?;
    let talk = async {
        let network = match parts.network.as_mut() {
            Some(network) => Some(network.settings().await.map_err(|e| fault("network", &e))?),
            None => None,
        };
        let mut stream = link.open().await.ok_or("the guest link closed")?;
        let request = GuestRequest::Boot(Box::new(boot_config(config, network)));
        write_message(&mut stream, &request).await.map_err(|e| fault("the guest link", &e))?;
        match read_message(&mut stream).await.map_err(|e| fault("the guest link", &e))? {
            // What it was told at first is as old as its boot is long: too old for certificates made this second.
            GuestReply::Ok => wake::set_clock(&link).await,
            GuestReply::Failed(problem) => Err(format!("the guest cannot come up: {problem}")),
        }
    };
    let mut watched = Watched {
        qemu: &mut parts.qemu,
        share: &mut parts.share,
        mounts: parts.mounts.as_mut(),
        // It is asked above, and an answer that does not come tells the same.
        network: None,
    };
    let first = tokio::select! {
        outcome = talk => match outcome {
            Ok(()) => return Ok(link.clone()),
            // A part's end closes the link; that it ended says more.
            Err(problem) => match tokio::time::timeout(TOLD_WITHIN, watched.first()).await {
                Ok(first) => first,
                Err(_) => return Err(problem),
            },
        },
        first = watched.first() => first,
    };
    Err(watched.reason(first).await.describe("while the guest booted"))
}

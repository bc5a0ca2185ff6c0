//! Waking: parts as they were, the state loaded, the memory used up, the guest called.

use std::fs::File;
use std::io::Write;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::time::Duration;

use sandbox_guest_client::Link;
use sandbox_state::crash;
use sandbox_wire::{GuestReply, GuestRequest, WakeCall};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::boot::unix_nanos;
use super::config::{Accel, MachineConfig};
use super::identity::{disks, made};
use super::link;
use super::part_end::Watched;
use super::parts::{Parts, Ram, bytes};
use super::start::watch_console;
use crate::files::MachineFiles;
use crate::memory::{self, Kept, SavedMemory};
use sandbox_guest_client::async_frames::{read_message, write_message};

/// From the first part to an answer, and never longer than a boot may take, which comes next.
const WAKES_WITHIN: Duration = Duration::from_secs(20);

/// What became of saved memory.
pub enum Waking {
    /// There was none.
    None,
    Awake(Box<(Parts, Link, Accel)>),
    /// It was there and could not be used, for this reason; it is gone now.
    Failed(String),
}

/// Why a sandbox does not go on from its saved memory.
enum Failure {
    /// A part of the machine did not come up, and would not for a boot either. The memory is as it was.
    Part(String),
    /// The memory is of no use, or is used up.
    Memory(String),
}

/// Goes on from saved memory where there is some that fits. Whatever it gives, nothing saved is left; an error
/// leaves it for the next start.
pub async fn wake(
    files: &MachineFiles,
    config: &MachineConfig,
    fragile: &watch::Sender<bool>,
) -> Result<Waking, String> {
    let _lock = memory::lock(files).map_err(|error| error.to_string())?;
    let outcome = match SavedMemory::read(files) {
        Ok(None) => return Ok(Waking::None),
        Ok(Some(saved)) => match check(files, config, &saved) {
            Ok(()) => go_on(files, config, &saved, fragile).await,
            Err(problem) => Err(Failure::Memory(problem)),
        },
        Err(error) => Err(Failure::Memory(error.to_string())),
    };
    if outcome.is_err() {
        fragile.send_replace(false);
    }
    match outcome {
        Ok(awake) => {
            // What it was woken from is of no use to anyone. Giving a large file back takes its time: nobody waits
            // for that.
            let used = File::open(files.memory());
            if let Err(error) = memory::forget_locked(files) {
                tracing::warn!("cannot remove used memory: {error}");
            }
            crash::point("the used memory is gone");
            tokio::task::spawn_blocking(move || drop(used));
            Ok(Waking::Awake(Box::new(awake)))
        }
        Err(Failure::Part(problem)) => Err(problem),
        Err(Failure::Memory(problem)) => {
            tracing::warn!("saved memory cannot be used: {problem}");
            memory::forget_locked(files).map_err(|error| error.to_string())?;
            Ok(Waking::Failed(problem))
        }
    }
}

fn check(files: &MachineFiles, config: &MachineConfig, saved: &SavedMemory) -> Result<(), String> {
    if let Some(reason) = &config.no_sleep {
        return Err(reason.clone());
    }
    let made = made(config, saved.accel).map_err(|error| error.to_string())?;
    let disks = disks(files, config).map_err(|error| error.to_string())?;
    saved.check(files, &made, &disks, &config.accels).map_err(|error| error.to_string())
}

async fn go_on(
    files: &MachineFiles,
    config: &MachineConfig,
    saved: &SavedMemory,
    fragile: &watch::Sender<bool>,
) -> Result<(Parts, Link, Accel), Failure> {
    let (memory, filled) =
        remember(files, config, saved).map_err(|error| Failure::Memory(error.to_string()))?;
    let ram = Ram { memory, tsc_khz: saved.tsc_khz, boot: saved.boot.clone() };
    let mut parts = Parts::start(files, config, saved.accel, ram, true)
        .await
        .map_err(|error| Failure::Part(error.to_string()))?;
    crash::point("the parts wait for the memory");
    // A slow disk takes its time, and ends: what is on it is not given up for that.
    if let Err(error) = filled.await.map_err(std::io::Error::other).flatten() {
        parts.end().await;
        return Err(Failure::Memory(format!("its memory cannot be read: {error}")));
    }
    let within = WAKES_WITHIN.min(Duration::from_secs(config.boot_deadline_secs));
    let woken = tokio::time::timeout(within, revive(files, &mut parts, saved, fragile)).await;
    let failure = match woken {
        Ok(Ok(link)) => return Ok((parts, link, saved.accel)),
        Ok(Err(failure)) => failure,
        Err(_) => Failure::Memory(format!("the guest did not wake within {} s", within.as_secs())),
    };
    parts.end().await;
    Err(failure)
}

/// The memory: from whoever writes it to the disk just now, or new and being filled from there, while the parts
/// start.
fn remember(
    files: &MachineFiles,
    config: &MachineConfig,
    saved: &SavedMemory,
) -> std::io::Result<(File, JoinHandle<std::io::Result<()>>)> {
    if let Kept::Held { holder, .. } = &saved.memory {
        return Ok((holder.take()?, tokio::task::spawn_blocking(|| Ok(()))));
    }
    let source = File::open(files.memory())?;
    let ram = memory::new_ram(bytes(config))?;
    let target = ram.try_clone()?;
    Ok((ram, tokio::task::spawn_blocking(move || memory::fill(&target, &source))))
}

async fn revive(
    files: &MachineFiles,
    parts: &mut Parts,
    saved: &SavedMemory,
    fragile: &watch::Sender<bool>,
) -> Result<Link, Failure> {
    let missing = || Failure::Memory("a part was started twice".into());
    let memory = |error: &dyn std::fmt::Display| Failure::Memory(error.to_string());
    watch_console(files, parts.console.take().ok_or_else(missing)?);
    let socket = parts.link.take().ok_or_else(missing)?;
    let mut watched = Watched {
        qemu: &mut parts.qemu,
        share: &mut parts.share,
        mounts: parts.mounts.as_mut(),
        // It is asked below, and an answer that does not come tells the same.
        network: None,
    };
    let work = async {
        // The bridge answers before the guest asks it anything, and before QEMU touches the memory.
        if let Some(network) = parts.network.as_mut() {
            network.settings().await.map_err(|error| Failure::Part(format!("network: {error}")))?;
        }
        parts.monitor.load(MachineFiles::STATE_NAME).await.map_err(|error| memory(&error))?;
        crash::point("the state is loaded");
        saved.use_up(files).map_err(|error| memory(&error))?;
        fragile.send_replace(true);
        crash::point("the memory is used up");
        let link_failed = |error: std::io::Error| Failure::Memory(format!("the guest link: {error}"));
        call(&socket, saved).map_err(link_failed)?;
        crash::point("the guest is called");
        parts.monitor.go_on().await.map_err(|error| memory(&error))?;
        crash::point("the guest goes on");
        let link = link::open(socket).map_err(link_failed)?;
        set_clock(&link).await.map_err(Failure::Memory)?;
        crash::point("the guest is awake");
        Ok(link)
    };
    tokio::select! {
        outcome = work => outcome,
        // Share servers take up what they were at, too, and may be what cannot: the next try would end the same
        // way.
        first = watched.first() => {
            Err(Failure::Memory(watched.reason(first).await.describe("while the guest woke")))
        }
    }
}

/// Written before the guest runs, so that it is the first thing the guest program reads.
fn call(mut socket: &StdUnixStream, saved: &SavedMemory) -> std::io::Result<()> {
    socket.write_all(&WakeCall { token: saved.token, unix_nanos: unix_nanos() }.encode())
}

/// Sets the clock once more, now exactly: the answer is the guest's sign of life.
pub async fn set_clock(link: &Link) -> Result<(), String> {
    let mut stream = link.open().await.ok_or("the guest link closed")?;
    let fault = |error: sandbox_wire::FrameError| format!("the guest link: {error}");
    let request = GuestRequest::SetClock { unix_nanos: unix_nanos() };
    write_message(&mut stream, &request).await.map_err(fault)?;
    match read_message(&mut stream).await.map_err(fault)? {
        GuestReply::Ok => Ok(()),
        GuestReply::Failed(problem) => Err(problem),
    }
}

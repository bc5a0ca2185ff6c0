//! Falling asleep: the guest settles its disks, stands still, and its state is written beside its memory.

use std::collections::BTreeMap;
use std::fs::File;
use std::process::Stdio;
use std::time::Duration;

use sandbox_guest_client::Link;
use sandbox_state::{Stamp, crash};
use sandbox_wire::{GuestReply, GuestRequest, TOKEN};

use super::config::{Accel, MachineConfig};
use super::identity::{disks, made};
use super::parts::Parts;
use crate::files::MachineFiles;
use crate::mark::FileMark;
use crate::memory::{self, Held, Kept, SavedMemory};
use crate::room;
use sandbox_guest_client::async_frames::{read_message, write_message};

/// Writing everything to the disks takes as long as they do.
const SETTLES_WITHIN: Duration = Duration::from_secs(20);
/// From the guest's answer to its last word on the link.
const LEAVES_WITHIN: Duration = Duration::from_secs(10);
const SAVES_WITHIN: Duration = Duration::from_secs(20);

/// Why a machine did not fall asleep.
#[derive(Debug)]
pub enum Awake {
    /// Nothing happened yet: it can be shut down as ever.
    Running(String),
    /// Its guest has settled its disks and waits for a wake call that will not come.
    Settled(String),
}

/// Puts the guest to sleep, ends the parts, and leaves valid memory behind.
pub async fn fall_asleep(
    files: &MachineFiles,
    config: &MachineConfig,
    link: &Link,
    parts: &mut Parts,
    accel: Accel,
) -> Result<(), Awake> {
    if let Some(reason) = &config.no_sleep {
        return Err(Awake::Running(reason.clone()));
    }
    let running = |error: std::io::Error| Awake::Running(error.to_string());
    let ram = parts.ram.memory.try_clone().map_err(running)?;
    let (tsc_khz, boot) = (parts.ram.tsc_khz, parts.ram.boot.clone());
    let in_use = memory::taken(&ram).map_err(running)?;
    if let Some(problem) = room::too_little(in_use, &files.dir).map_err(running)? {
        return Err(Awake::Running(problem));
    }
    let token: [u8; TOKEN] = rand::random();
    tokio::time::timeout(SETTLES_WITHIN, settle(link, token))
        .await
        .unwrap_or_else(|_| Err("the guest did not settle its disks in time".into()))
        .map_err(Awake::Running)?;
    crash::point("the guest has settled");
    let settled = |problem: &dyn std::fmt::Display| Awake::Settled(problem.to_string());
    // A guest that stands still before it has left the link would take the wake call for a part of it.
    tokio::time::timeout(LEAVES_WITHIN, link.ended())
        .await
        .map_err(|_| settled(&"the guest did not leave its link in time"))?;
    crash::point("the guest has left its link");
    // A state of another time must not be taken for this one.
    let held = memory::lock(files).map_err(|error| settled(&error))?;
    memory::forget_record(files).map_err(|error| settled(&error))?;
    tokio::time::timeout(SAVES_WITHIN, parts.monitor.save(MachineFiles::STATE_NAME))
        .await
        .map_err(|_| settled(&"QEMU did not save the state in time"))?
        .map_err(|error| settled(&error))?;
    crash::point("the state is saved");
    // The state is complete, and the disks' last writes are the host kernel's: nothing waits in QEMU.
    parts.kill().await;
    crash::point("the parts are gone");
    let record = || -> Result<SavedMemory, sandbox_runtime::RuntimeError> {
        let id = format!("{:032x}", rand::random::<u128>());
        // It waits for the lock, and finds the record.
        let holder = Held::new(settle_later(files, config, &ram, &id)?, &ram)?;
        Ok(SavedMemory {
            version: SavedMemory::VERSION,
            id,
            made: made(config, accel)?,
            disks: disks(files, config)?,
            memory: Kept::Held { holder, taken: in_use },
            state: memory::state_digest(files)?,
            accel,
            tsc_khz,
            boot,
            token,
            host_boot: memory::host_boot(),
            saved_at: Stamp::now(),
        })
    };
    let record = record().map_err(|error| settled(&error))?;
    crash::point("the memory has a holder");
    record.write_unsynced(files).map_err(|error| settled(&error))?;
    crash::point("the machine is asleep");
    drop(held);
    Ok(())
}

async fn settle(link: &Link, token: [u8; TOKEN]) -> Result<(), String> {
    let mut stream = link.open().await.ok_or("the guest link is gone")?;
    let fault = |error: sandbox_wire::FrameError| format!("the guest link: {error}");
    write_message(&mut stream, &GuestRequest::Sleep { token }).await.map_err(fault)?;
    match read_message(&mut stream).await.map_err(fault)? {
        GuestReply::Ok => Ok(()),
        GuestReply::Failed(problem) => Err(format!("the guest cannot settle its disks: {problem}")),
    }
}

/// Starts the process that has the memory from now on, and writes it to the disk; nobody waits for it.
fn settle_later(files: &MachineFiles, config: &MachineConfig, ram: &File, id: &str) -> std::io::Result<u32> {
    let mut command = std::process::Command::new(&config.program);
    command.arg("internal").arg("settle-memory").arg(&files.dir).arg(id);
    command.current_dir("/").stdin(Stdio::from(ram.try_clone()?)).stdout(Stdio::null());
    Ok(command.spawn()?.id())
}

/// What the record knows the disks by.
pub type Disks = BTreeMap<String, FileMark>;

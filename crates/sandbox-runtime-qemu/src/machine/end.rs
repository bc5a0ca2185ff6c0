//! Graceful ends: asleep where that is wanted and possible, else powered off.

use std::time::Duration;

use sandbox_guest_client::Link;
use sandbox_wire::{GuestReply, GuestRequest};

use super::config::{Accel, MachineConfig};
use super::parts::Parts;
use super::serve::Ended;
use super::sleep::{Awake, fall_asleep};
use crate::files::MachineFiles;
use sandbox_guest_client::async_frames::{read_message, write_message};

/// After the guest has said that everything is on disk, power-off is a matter of milliseconds.
const POWER_OFF: Duration = Duration::from_secs(5);

/// Ends the guest, and every part of a machine that falls asleep.
pub async fn end(
    files: &MachineFiles,
    config: &MachineConfig,
    link: &Link,
    parts: &mut Parts,
    accel: Accel,
    grace: Duration,
    sleep: bool,
) -> Ended {
    let mut not_asleep = None;
    if sleep {
        match fall_asleep(files, config, link, parts, accel).await {
            Ok(()) => return Ended::Asleep,
            Err(Awake::Running(problem)) => not_asleep = Some(problem),
            Err(Awake::Settled(problem)) => {
                tracing::warn!("the memory could not be saved: {problem}");
                return Ended::Off { forced: false, not_asleep: Some(problem) };
            }
        }
    }
    Ended::Off { forced: shut_down(link, parts, grace).await, not_asleep }
}

/// Asks the guest to end within `grace`. Returns whether it has to be forced.
async fn shut_down(link: &Link, parts: &mut Parts, grace: Duration) -> bool {
    let talk = async {
        let mut stream = link.open().await?;
        let grace_millis = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        write_message(&mut stream, &GuestRequest::Shutdown { grace_millis }).await.ok()?;
        // The guest waits a moment for the stream to close, as the sign that its answer was read.
        read_message::<GuestReply>(&mut stream).await.ok()
    };
    // The guest itself kills what is left after the grace; syncing comes on top.
    let answered = tokio::time::timeout(grace + POWER_OFF, talk).await;
    if !matches!(answered, Ok(Some(GuestReply::Ok))) {
        tracing::warn!("the guest did not end gracefully: {answered:?}");
    }
    match tokio::time::timeout(POWER_OFF, parts.qemu.wait()).await {
        Ok(Ok(status)) => !status.success(),
        _ => true,
    }
}

//! Between two links: the memory is saved, perhaps for days, and comes back under another QEMU.
//!
//! ```text
//! host ── Sleep{token} ──► settle the disks ──► reply ──► link ends with `ASLEEP` ──► read the bare port … machine stands still
//! host ── token, time ───► set the clock, reset connections ──► next link
//! ```

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{AsyncReadExt, AsyncWriteExt};
use sandbox_wire::{ASLEEP, FrameError, GuestReply, TOKEN, WakeCall};

use crate::console::say;
use crate::exec;
use crate::framed::{FrameReader, send};
use crate::guest::Guest;
use crate::port::Port;
use crate::session::blocking;
use crate::shutdown::HOST_READS_WITHIN;

const LOOK_AGAIN: Duration = Duration::from_millis(1);
/// What may lie before a wake call is what was on its way when the machine stood still.
const KEPT: usize = 1 << 20;

/// Serves [`sandbox_wire::GuestRequest::Sleep`]. Where the disks cannot be settled the guest stays awake.
pub async fn answer(token: [u8; TOKEN], frames: FrameReader, guest: &Arc<Guest>) -> Result<(), FrameError> {
    let (_, mut stream) = frames.into_raw();
    let machine = Arc::clone(&guest.machine);
    let reply = blocking(move || machine.settle()).await;
    let settled = reply == GuestReply::Ok;
    send(&mut stream, &reply).await?;
    stream.close().await?;
    if settled {
        // The link must not end before the host has the answer.
        let _ = tokio::time::timeout(HOST_READS_WITHIN, stream.read(&mut [0])).await;
        guest.fall_asleep(token);
    }
    Ok(())
}

/// Says that the link is over, and reads the bare port until the call comes, and does what it asks. `limit` is the guest's own time, which
/// stands still with the machine.
pub async fn until_woken(
    port: &Port,
    guest: &Arc<Guest>,
    token: [u8; TOKEN],
    limit: Duration,
) -> io::Result<()> {
    port.write_all(&ASLEEP, limit).await?;
    let deadline = Instant::now() + limit;
    let mut bytes = Vec::new();
    let mut buffer = [0; 256];
    loop {
        // No more than the call is taken: what follows it belongs to the next link.
        let wanted = WakeCall::LENGTH - bytes.len().min(WakeCall::LENGTH - 1);
        let count = port.read_now(&mut buffer[..wanted])?;
        bytes.extend_from_slice(&buffer[..count]);
        if let Some((call, _)) = WakeCall::find(token, &bytes) {
            wake(guest, call.unix_nanos).await;
            return Ok(());
        }
        if bytes.len() > KEPT {
            bytes.drain(..bytes.len() - WakeCall::LENGTH);
        }
        if count == 0 {
            if Instant::now() >= deadline {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the host does not wake this guest"));
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
}

async fn wake(guest: &Arc<Guest>, unix_nanos: u64) {
    let machine = Arc::clone(&guest.machine);
    if let GuestReply::Failed(problem) = blocking(move || machine.wake(unix_nanos)).await {
        say(format_args!("waking: {problem}"));
    }
    exec::rehearse(guest);
}

use std::io;
use std::sync::Arc;

use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_settime};
use sandbox_wire::GuestReply;

use crate::guest::Guest;
use crate::session::blocking;

const NANOS_PER_SEC: u64 = 1_000_000_000;

/// Serves [`sandbox_wire::GuestRequest::SetClock`]. Fails where the clock is not the guest's own.
pub async fn answer(unix_nanos: u64, guest: &Arc<Guest>) -> GuestReply {
    let machine = Arc::clone(&guest.machine);
    blocking(move || {
        machine
            .set_clock(unix_nanos)
            .map_err(|error| io::Error::new(error.kind(), format!("setting the clock: {error}")))
    })
    .await
}

/// Sets the machine's clock.
pub fn set(unix_nanos: u64) -> io::Result<()> {
    let out_of_range = |_| io::Error::from(io::ErrorKind::InvalidInput);
    let secs = i64::try_from(unix_nanos / NANOS_PER_SEC).map_err(out_of_range)?;
    let nanos = i64::try_from(unix_nanos % NANOS_PER_SEC).map_err(out_of_range)?;
    Ok(clock_settime(ClockId::CLOCK_REALTIME, TimeSpec::new(secs, nanos))?)
}

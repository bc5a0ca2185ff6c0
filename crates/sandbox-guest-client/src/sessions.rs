//! Commands that the guest program keeps when their client leaves.

use std::os::unix::net::UnixStream;
use std::time::Duration;

use sandbox_model::{KeptSession, SandboxName, SessionEnd, TermSize};
use sandbox_runtime::{ExecSession, RuntimeError};
use sandbox_wire::{GuestRequest, GuestSessionEnd, GuestSessions};

use crate::exec::begun;
use crate::frames::{lost, read};

/// A guest that has not answered by then does not answer at all; nobody waits for it for ever.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);
/// The guest gives what is on a terminal eight seconds.
const ENDS_WITHIN: Duration = Duration::from_secs(20);

fn ask(name: &SandboxName, socket: &mut UnixStream, request: &GuestRequest) -> Result<(), RuntimeError> {
    sandbox_wire::write_message(socket, request).map_err(|error| lost(name, error))
}

/// Joins a kept session over a stream of the guest program.
pub fn attach(
    name: &SandboxName,
    mut socket: UnixStream,
    session: u32,
    size: TermSize,
) -> Result<ExecSession, RuntimeError> {
    ask(name, &mut socket, &GuestRequest::Attach { session, size })?;
    begun(name, socket, false).map_err(|error| match error {
        RuntimeError::ExecFailed { .. } => RuntimeError::NoSuchSession { name: name.clone(), session },
        other => other,
    })
}

/// The kept sessions. The guest has a few seconds to answer.
pub fn sessions(name: &SandboxName, mut socket: UnixStream) -> Result<Vec<KeptSession>, RuntimeError> {
    socket.set_read_timeout(Some(ANSWERS_WITHIN))?;
    ask(name, &mut socket, &GuestRequest::ListSessions)?;
    let GuestSessions(sessions) = read(name, &mut socket)?;
    Ok(sessions)
}

/// Ends a kept session. The guest gives what is on its terminal some seconds.
pub fn end_session(
    name: &SandboxName,
    mut socket: UnixStream,
    session: u32,
) -> Result<SessionEnd, RuntimeError> {
    socket.set_read_timeout(Some(ENDS_WITHIN))?;
    ask(name, &mut socket, &GuestRequest::EndSession { session })?;
    match read(name, &mut socket)? {
        GuestSessionEnd::Ended(end) => Ok(end),
        GuestSessionEnd::NoSuchSession => Err(RuntimeError::NoSuchSession { name: name.clone(), session }),
        GuestSessionEnd::Failed(problem) => Err(RuntimeError::other(problem)),
    }
}

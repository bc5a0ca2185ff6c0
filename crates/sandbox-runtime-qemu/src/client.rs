//! Talking to a machine process.

use std::io::{ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use sandbox_model::{SandboxName, Status};
use sandbox_runtime::RuntimeError;
use sandbox_state::{StateError, crash};
use sandbox_wire::{FrameError, GUEST_PROTOCOL, MachineReply, MachineRequest};

use crate::error::{from_frame, from_state};
use crate::files::MachineFiles;
use crate::record;

/// Taking down a large guest's memory on a busy machine.
const GONE_WITHIN: Duration = Duration::from_secs(10);
/// Between two looks at what nobody tells of.
pub const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// What a connection found.
#[derive(Debug)]
pub enum Asked {
    Answer(UnixStream, MachineReply),
    /// No machine is alive, or it ended before it answered.
    Gone,
}

/// Connects, asks, and waits for the one JSON answer.
pub fn ask(files: &MachineFiles, request: &MachineRequest) -> Result<Asked, RuntimeError> {
    let mut socket = match sandbox_state::connect_socket(&files.socket()) {
        Ok(socket) => socket,
        Err(StateError::Io(error))
            if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) =>
        {
            return Ok(Asked::Gone);
        }
        Err(error) => return Err(from_state(error)),
    };
    let gone = |error: &FrameError| {
        matches!(error, FrameError::Closed)
            || matches!(error, FrameError::Io(io) if matches!(io.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset))
    };
    let sent = sandbox_wire::write_json(&mut socket, request);
    if matches!(request, MachineRequest::Stop { .. } | MachineRequest::Kill) {
        crash::point("the machine is told to end");
    }
    match sent.and_then(|()| sandbox_wire::read_json(&mut socket)) {
        Ok(reply) => Ok(Asked::Answer(socket, reply)),
        Err(error) if gone(&error) => Ok(Asked::Gone),
        Err(error) => Err(from_frame(error)),
    }
}

/// Whether a machine listens. One that was killed still holds its lock for moments, while the kernel takes its
/// memory down.
pub fn listens(files: &MachineFiles) -> Result<bool, RuntimeError> {
    match sandbox_state::connect_socket(&files.socket()) {
        Ok(_) => Ok(true),
        Err(StateError::Io(error))
            if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) =>
        {
            Ok(false)
        }
        Err(error) => Err(from_state(error)),
    }
}

/// Waits until a machine that listens no more has let go of its lock, or another has taken its place.
pub fn wait_until_gone(files: &MachineFiles) -> Result<(), RuntimeError> {
    let begin = Instant::now();
    while begin.elapsed() < GONE_WITHIN
        && !record::status(files).map_err(from_state)?.is_at_rest()
        && !listens(files)?
    {
        std::thread::sleep(LOOK_AGAIN);
    }
    Ok(())
}

/// A connection that has been answered `Ready`; waits while the machine starts.
pub fn connect(
    name: &SandboxName,
    files: &MachineFiles,
    request: &MachineRequest,
    action: &'static str,
) -> Result<UnixStream, RuntimeError> {
    match ask(files, request)? {
        Asked::Answer(socket, MachineReply::Ready { guest_protocol, version, .. }) => {
            if guest_protocol != GUEST_PROTOCOL {
                return Err(RuntimeError::OtherVersion { running: version });
            }
            Ok(socket)
        }
        Asked::Answer(_, MachineReply::Refused { .. }) | Asked::Gone => {
            let status = record::status(files).map_err(from_state)?;
            // The machine was starting or running a moment ago; what it is now is the answer.
            let status = if status == Status::Running { Status::Draining } else { status };
            Err(RuntimeError::WrongStatus { name: name.clone(), status, action })
        }
        Asked::Answer(_, other) => {
            Err(RuntimeError::other(format!("the machine answered out of turn: {other:?}")))
        }
    }
}

/// Returns when the machine process has closed the connection, which it does by ending.
pub fn wait_for_end(socket: &mut UnixStream) -> Result<(), RuntimeError> {
    let mut rest = [0; 64];
    loop {
        match socket.read(&mut rest) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
}

//! Commands in the guest: one connection to the machine process, relayed to one stream of the guest
//! program.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sandbox_model::{
    ExecSpec, ExecUser, GUEST_USER, GUEST_WORKSPACE, KeptSession, SandboxName, SessionEnd, TermSize,
};
use sandbox_runtime::{Connection, ExecEvent, ExecInput, ExecOutput, ExecSession, RuntimeError};
use sandbox_wire::{
    ExecOutput as Frame, ExecRequest, FrameError, GuestReply, GuestRequest, GuestSessionEnd, GuestSessions,
};

use crate::error::from_frame;

/// A guest that has not answered by then does not answer at all; nobody waits for it for ever.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);
/// The guest gives what is on a terminal eight seconds.
const ENDS_WITHIN: Duration = Duration::from_secs(20);
/// The largest piece of input in one frame.
const PIECE: usize = 64 << 10;

fn request(spec: &ExecSpec) -> ExecRequest {
    use std::os::unix::ffi::OsStrExt;
    ExecRequest {
        argv: spec.argv.iter().map(|word| word.as_bytes().to_vec()).collect(),
        env: spec.env.clone(),
        cwd: spec.cwd.clone().unwrap_or_else(|| GUEST_WORKSPACE.into()),
        user: match spec.user {
            ExecUser::Dev => GUEST_USER.into(),
            ExecUser::Root => "root".into(),
        },
        tty: spec.tty,
        detach: spec.detach,
        keep: spec.keep.clone(),
    }
}

/// Starts the command on a connection that the machine process has already answered `Ready`.
pub fn start(
    name: &SandboxName,
    mut socket: UnixStream,
    spec: &ExecSpec,
) -> Result<ExecSession, RuntimeError> {
    sandbox_wire::write_message(&mut socket, &GuestRequest::Exec(Box::new(request(spec))))
        .map_err(from_frame)?;
    begun(name, socket, spec.detach)
}

/// Joins a kept session on such a connection.
pub fn attach(
    name: &SandboxName,
    mut socket: UnixStream,
    session: u32,
    size: TermSize,
) -> Result<ExecSession, RuntimeError> {
    sandbox_wire::write_message(&mut socket, &GuestRequest::Attach { session, size }).map_err(from_frame)?;
    begun(name, socket, false).map_err(|error| match error {
        RuntimeError::ExecFailed { .. } => RuntimeError::NoSuchSession { name: name.clone(), session },
        other => other,
    })
}

/// The kept sessions, asked on such a connection.
pub fn sessions(name: &SandboxName, mut socket: UnixStream) -> Result<Vec<KeptSession>, RuntimeError> {
    socket.set_read_timeout(Some(ANSWERS_WITHIN))?;
    sandbox_wire::write_message(&mut socket, &GuestRequest::ListSessions).map_err(from_frame)?;
    let GuestSessions(sessions) =
        sandbox_wire::read_message(&mut socket).map_err(|error| lost(name, error))?;
    Ok(sessions)
}

/// Ends a kept session, on such a connection.
pub fn end_session(
    name: &SandboxName,
    mut socket: UnixStream,
    session: u32,
) -> Result<SessionEnd, RuntimeError> {
    socket.set_read_timeout(Some(ENDS_WITHIN))?;
    sandbox_wire::write_message(&mut socket, &GuestRequest::EndSession { session }).map_err(from_frame)?;
    match sandbox_wire::read_message(&mut socket).map_err(|error| lost(name, error))? {
        GuestSessionEnd::Ended(end) => Ok(end),
        GuestSessionEnd::NoSuchSession => Err(RuntimeError::NoSuchSession { name: name.clone(), session }),
        GuestSessionEnd::Failed(problem) => Err(RuntimeError::other(problem)),
    }
}

/// The session of a stream on which a command was asked for.
fn begun(name: &SandboxName, mut socket: UnixStream, detached: bool) -> Result<ExecSession, RuntimeError> {
    // Errors of the start are errors of this call: the first frame tells.
    let session = match read(name, &mut socket)? {
        Frame::Started { session, .. } => session,
        Frame::Failed { code, message } => return Err(RuntimeError::ExecFailed { code, message }),
        other => return Err(RuntimeError::other(format!("the guest answered out of turn: {other:?}"))),
    };
    let writer = Arc::new(Mutex::new(socket.try_clone()?));
    let input = Input { name: name.clone(), writer };
    let output = Output { name: name.clone(), socket, detached };
    Ok(ExecSession { session, input: Box::new(input), output: Box::new(output) })
}

fn lost(name: &SandboxName, error: FrameError) -> RuntimeError {
    match error {
        FrameError::Closed | FrameError::Malformed(_) => RuntimeError::Lost(name.clone()),
        other => from_frame(other),
    }
}

fn read(name: &SandboxName, socket: &mut UnixStream) -> Result<Frame, RuntimeError> {
    sandbox_wire::read_message(socket).map_err(|error| lost(name, error))
}

struct Input {
    name: SandboxName,
    writer: Arc<Mutex<UnixStream>>,
}

impl Input {
    fn send(&self, frame: &sandbox_wire::ExecInput) -> Result<(), RuntimeError> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        match sandbox_wire::write_message(&mut *writer, frame) {
            // The command has ended; its exit is what the caller reads next.
            Err(FrameError::Io(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            other => other.map_err(|error| lost(&self.name, error)),
        }
    }
}

impl ExecInput for Input {
    fn write(&mut self, bytes: &[u8]) -> Result<(), RuntimeError> {
        for piece in bytes.chunks(PIECE) {
            self.send(&sandbox_wire::ExecInput::Stdin(piece.to_vec()))?;
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), RuntimeError> {
        self.send(&sandbox_wire::ExecInput::Eof)
    }

    fn resize(&mut self, size: TermSize) -> Result<(), RuntimeError> {
        self.send(&sandbox_wire::ExecInput::Resize(size))
    }

    fn signal(&mut self, signal: i32) -> Result<(), RuntimeError> {
        self.send(&sandbox_wire::ExecInput::Signal(signal))
    }

    fn try_clone(&self) -> Result<Box<dyn ExecInput>, RuntimeError> {
        Ok(Box::new(Self { name: self.name.clone(), writer: Arc::clone(&self.writer) }))
    }
}

struct Output {
    name: SandboxName,
    socket: UnixStream,
    detached: bool,
}

impl ExecOutput for Output {
    fn next(&mut self) -> Result<ExecEvent, RuntimeError> {
        if self.detached {
            return Ok(ExecEvent::Exited(sandbox_model::ExitStatus::SUCCESS));
        }
        match read(&self.name, &mut self.socket)? {
            Frame::Stdout(bytes) => Ok(ExecEvent::Stdout(bytes)),
            Frame::Stderr(bytes) => Ok(ExecEvent::Stderr(bytes)),
            Frame::Exited(status) => Ok(ExecEvent::Exited(status)),
            Frame::Failed { code, message } => Err(RuntimeError::ExecFailed { code, message }),
            Frame::Started { .. } => Err(RuntimeError::other("the guest answered out of turn")),
        }
    }
}

/// Whoever holds an input handle may live on; the session's end is the output's.
impl Drop for Output {
    fn drop(&mut self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

/// A raw connection to a port in the guest.
pub fn dial(
    name: &SandboxName,
    mut socket: UnixStream,
    port: u16,
) -> Result<Box<dyn Connection>, RuntimeError> {
    sandbox_wire::write_message(&mut socket, &GuestRequest::Dial { port }).map_err(from_frame)?;
    match sandbox_wire::read_message(&mut socket).map_err(|error| lost(name, error))? {
        GuestReply::Ok => Ok(Box::new(Dialled(socket))),
        GuestReply::Failed(problem) => {
            Err(RuntimeError::Io(std::io::Error::new(std::io::ErrorKind::ConnectionRefused, problem)))
        }
    }
}

/// The next program of the guest that wants to speak with the user's ssh-agent.
pub fn accept_ssh_agent(
    name: &SandboxName,
    mut socket: UnixStream,
) -> Result<Box<dyn Connection>, RuntimeError> {
    sandbox_wire::write_message(&mut socket, &GuestRequest::AcceptSshAgent).map_err(from_frame)?;
    match sandbox_wire::read_message(&mut socket).map_err(|error| lost(name, error))? {
        GuestReply::Ok => Ok(Box::new(Dialled(socket))),
        GuestReply::Failed(problem) => Err(RuntimeError::other(problem)),
    }
}

struct Dialled(UnixStream);

impl Read for Dialled {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Dialled {
    fn write(&mut self, buffer: &[u8]) -> std::io::Result<usize> {
        self.0.write(buffer)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

impl Connection for Dialled {
    fn try_clone(&self) -> Result<Box<dyn Connection>, RuntimeError> {
        Ok(Box::new(Self(self.0.try_clone()?)))
    }

    fn shutdown_write(&mut self) -> Result<(), RuntimeError> {
        Ok(self.0.shutdown(Shutdown::Write)?)
    }

    fn set_timeout(&mut self, timeout: Option<Duration>) -> Result<(), RuntimeError> {
        self.0.set_read_timeout(timeout)?;
        Ok(self.0.set_write_timeout(timeout)?)
    }
}

use std::io::ErrorKind;
use std::net::Shutdown;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sandbox_model::{ExecSpec, ExecUser, ExitStatus, GUEST_USER, GUEST_WORKSPACE, SandboxName, TermSize};
use sandbox_runtime::{ExecEvent, ExecInput, ExecOutput, ExecSession, RuntimeError};
use sandbox_wire::{ExecOutput as Frame, ExecRequest, FrameError, GuestRequest};

use crate::frames::{Until, lost, read};

/// The largest piece of input in one frame.
const PIECE: usize = 64 << 10;

/// For the first word about a command. A busy guest without hardware virtualization takes seconds; one that never
/// answers is not to hold up whoever waits with a lock.
const STARTS_WITHIN: Duration = Duration::from_mins(5);

/// The command's own variables come after `env`, which is the image's and the sandbox's.
fn request(spec: &ExecSpec, env: &[(String, String)]) -> ExecRequest {
    ExecRequest {
        argv: spec.argv.iter().map(|word| word.as_bytes().to_vec()).collect(),
        env: env.iter().chain(&spec.env).cloned().collect(),
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

/// Starts a command over a stream of the guest program. `env` is what the guest program does not know of
/// itself. Errors of the start are errors of this call.
pub fn exec(
    name: &SandboxName,
    mut socket: UnixStream,
    spec: &ExecSpec,
    env: &[(String, String)],
) -> Result<ExecSession, RuntimeError> {
    let request = GuestRequest::Exec(Box::new(request(spec, env)));
    sandbox_wire::write_message(&mut socket, &request).map_err(|error| lost(name, error))?;
    begun(name, socket, spec.detach)
}

/// The session of a stream on which a command was asked for: the guest's first frame tells how that went.
pub fn begun(name: &SandboxName, socket: UnixStream, detached: bool) -> Result<ExecSession, RuntimeError> {
    let mut first = Until { socket: &socket, deadline: Instant::now() + STARTS_WITHIN };
    let answer: Result<Frame, _> = read(name, &mut first).map_err(|error| match error {
        RuntimeError::Io(error) if error.kind() == ErrorKind::TimedOut => {
            RuntimeError::NotInTime { command: "the start of a command", seconds: STARTS_WITHIN.as_secs() }
        }
        other => other,
    });
    socket.set_read_timeout(None)?;
    let session = match answer? {
        Frame::Started { session, .. } => session,
        Frame::Failed { code, message } => return Err(RuntimeError::ExecFailed { code, message }),
        other => return Err(RuntimeError::other(format!("the guest answered out of turn: {other:?}"))),
    };
    let writer = Arc::new(Mutex::new(socket.try_clone()?));
    let input = Input { name: name.clone(), writer };
    let output = Output { name: name.clone(), socket, detached, deadline: None };
    Ok(ExecSession { session, input: Box::new(input), output: Box::new(output) })
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
            Err(FrameError::Io(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
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
    deadline: Option<Instant>,
}

impl ExecOutput for Output {
    fn next(&mut self) -> Result<ExecEvent, RuntimeError> {
        if self.detached {
            return Ok(ExecEvent::Exited(ExitStatus::SUCCESS));
        }
        let frame = match self.deadline {
            Some(deadline) => read(&self.name, &mut Until { socket: &self.socket, deadline }),
            None => read(&self.name, &mut self.socket),
        };
        match frame? {
            Frame::Stdout(bytes) => Ok(ExecEvent::Stdout(bytes)),
            Frame::Stderr(bytes) => Ok(ExecEvent::Stderr(bytes)),
            Frame::Exited(status) => Ok(ExecEvent::Exited(status)),
            Frame::Failed { code, message } => Err(RuntimeError::ExecFailed { code, message }),
            Frame::Started { .. } => Err(RuntimeError::other("the guest answered out of turn")),
        }
    }

    fn set_deadline(&mut self, deadline: Option<Instant>) {
        self.deadline = deadline;
    }
}

/// Whoever holds an input handle may live on; the session's end is the output's.
impl Drop for Output {
    fn drop(&mut self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

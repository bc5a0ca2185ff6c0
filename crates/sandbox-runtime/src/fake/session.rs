use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open, waitid,
};
use sandbox_model::{ExitStatus, SandboxName, TermSize};

use super::spawn;
use crate::{ExecEvent, ExecInput, ExecOutput, ExecSession, Result, RuntimeError};

pub(super) type Streams = (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>);

/// How much is read at once, in bytes.
const CHUNK: usize = 1 << 16;
/// A terminal hands its last output over a little after the command has ended.
const TERMINAL_REST_NANOS: i64 = 100_000_000;
const MOMENT: i64 = 999_999_999;

/// The life of one command, watched by a thread of its own.
#[derive(Clone)]
pub(super) struct Waiting(Arc<Life>);

struct Life {
    pid: Pid,
    /// Readable once the command has ended.
    ended: OwnedFd,
    /// Set together with the reaping: while it is unset, the number is still this command's.
    status: Mutex<Option<ExitStatus>>,
}

impl Waiting {
    /// Called by the thread that made the child and will [`Waiting::wait`] for it.
    pub fn new(child: &Child) -> std::io::Result<Self> {
        let pid = Pid::from_child(child);
        let ended = pidfd_open(pid, PidfdFlags::empty())?;
        Ok(Self(Arc::new(Life { pid, ended, status: Mutex::new(None) })))
    }

    /// Blocks until the command has ended.
    pub fn wait(&self, child: &mut Child) {
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while matches!(waitid(WaitId::Pid(self.0.pid), ended), Err(Errno::INTR)) {}
        let mut status = self.0.status.lock().unwrap_or_else(PoisonError::into_inner);
        *status = Some(match child.wait() {
            Ok(ended) => ended
                .code()
                .map_or_else(|| ExitStatus::Signal(ended.signal().unwrap_or_default()), ExitStatus::Code),
            Err(_) => ExitStatus::Code(1),
        });
    }

    fn signal(&self, signal: Signal) -> std::io::Result<()> {
        let status = self.0.status.lock().unwrap_or_else(PoisonError::into_inner);
        if status.is_none() {
            kill_process_group(self.0.pid, signal)?;
        }
        Ok(())
    }

    /// Once `ended` is readable: waits the moment until the thread has reaped it.
    fn status(&self) -> ExitStatus {
        loop {
            if let Some(status) = *self.0.status.lock().unwrap_or_else(PoisonError::into_inner) {
                return status;
            }
            std::thread::yield_now();
        }
    }
}

/// What both halves hold. Dropped with the last of them: the hang-up.
struct Handles {
    waiting: Waiting,
    stdin: Mutex<Option<File>>,
    terminal: Option<OwnedFd>,
}

impl Drop for Handles {
    fn drop(&mut self) {
        let _ = self.waiting.signal(Signal::HUP);
    }
}

struct Input(Arc<Handles>);

impl ExecInput for Input {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let mut stdin = self.0.stdin.lock().unwrap_or_else(PoisonError::into_inner);
        match stdin.as_mut() {
            Some(stdin) => Ok(stdin.write_all(bytes)?),
            None => Err(std::io::Error::from(std::io::ErrorKind::BrokenPipe).into()),
        }
    }

    fn close(&mut self) -> Result<()> {
        let mut stdin = self.0.stdin.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mut stdin) = stdin.take()
            && self.0.terminal.is_some()
        {
            // A terminal cannot be closed for input alone; this is the key that says so.
            let _ = stdin.write_all(&[4]);
        }
        Ok(())
    }

    fn resize(&mut self, size: TermSize) -> Result<()> {
        self.0.terminal.as_ref().map_or(Ok(()), |terminal| spawn::resize(terminal, size))
    }

    fn signal(&mut self, signal: i32) -> Result<()> {
        let signal = Signal::from_named_raw(signal)
            .ok_or_else(|| std::io::Error::from(std::io::ErrorKind::InvalidInput))?;
        Ok(self.0.waiting.signal(signal)?)
    }

    fn try_clone(&self) -> Result<Box<dyn ExecInput>> {
        Ok(Box::new(Self(self.0.clone())))
    }
}

type Wrap = fn(Vec<u8>) -> ExecEvent;

struct Output {
    name: SandboxName,
    handles: Arc<Handles>,
    /// Readable once the machine is gone.
    machine: OwnedFd,
    streams: Vec<(File, Wrap)>,
    deadline: Option<Instant>,
}

fn ready(fd: &PollFd<'_>) -> bool {
    !fd.revents().is_empty()
}

impl Output {
    /// What is there to be read now, or `None` after `nanos` (negative: no end) with nothing.
    fn read_some(&mut self, nanos: i64, also_ends: bool) -> Result<Step> {
        let life = &self.handles.waiting.0;
        let mut fds: Vec<PollFd<'_>> =
            self.streams.iter().map(|(file, _)| PollFd::new(file, PollFlags::IN)).collect();
        if also_ends {
            fds.push(PollFd::new(&life.ended, PollFlags::IN));
            fds.push(PollFd::new(&self.machine, PollFlags::IN));
        }
        let timeout = Timespec { tv_sec: 0, tv_nsec: nanos };
        match poll(&mut fds, (nanos >= 0).then_some(&timeout)) {
            Err(Errno::INTR) => return Ok(Step::Again),
            Err(error) => return Err(std::io::Error::from(error).into()),
            Ok(0) => return Ok(Step::Silence),
            Ok(_) => {}
        }
        if let Some(index) = fds[..self.streams.len()].iter().position(ready) {
            return self.read_stream(index);
        }
        Ok(if ready(&fds[fds.len() - 2]) { Step::Ended } else { Step::MachineGone })
    }

    fn read_stream(&mut self, index: usize) -> Result<Step> {
        let mut chunk = vec![0; CHUNK];
        let (file, wrap) = &mut self.streams[index];
        match file.read(&mut chunk) {
            Ok(0) => {}
            Ok(count) => {
                chunk.truncate(count);
                let event = wrap(chunk);
                // The other stream shall not starve behind a busy one.
                self.streams.rotate_left(1);
                return Ok(Step::Event(event));
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => return Ok(Step::Again),
            // So a terminal says that its other side is closed.
            Err(error) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => {}
            Err(error) => return Err(error.into()),
        }
        drop(self.streams.remove(index));
        Ok(Step::Again)
    }

    /// The command has ended: what it wrote before that is still to be had.
    fn rest(&mut self) -> Result<ExecEvent> {
        let nanos = if self.handles.terminal.is_some() { TERMINAL_REST_NANOS } else { 0 };
        while !self.streams.is_empty() {
            match self.read_some(nanos, false)? {
                Step::Event(event) => return Ok(event),
                Step::Again => {}
                // Some other process keeps the stream open.
                _ => self.streams.clear(),
            }
        }
        Ok(ExecEvent::Exited(self.handles.waiting.status()))
    }
}

enum Step {
    Event(ExecEvent),
    Again,
    Silence,
    Ended,
    MachineGone,
}

impl ExecOutput for Output {
    fn next(&mut self) -> Result<ExecEvent> {
        loop {
            let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into());
            }
            // Less than a second at once: more does not fit in the field.
            let nanos = left.map_or(-1, |left| i64::try_from(left.as_nanos()).unwrap_or(MOMENT).min(MOMENT));
            match self.read_some(nanos, true)? {
                Step::Event(event) => return Ok(event),
                Step::Ended => return self.rest(),
                Step::MachineGone => {
                    let _ = self.handles.waiting.signal(Signal::KILL);
                    return Err(RuntimeError::Lost(self.name.clone()));
                }
                Step::Again | Step::Silence => {}
            }
        }
    }

    fn set_deadline(&mut self, deadline: Option<Instant>) {
        self.deadline = deadline;
    }
}

/// The session's end is the output's, whoever holds an input.
impl Drop for Output {
    fn drop(&mut self) {
        let _ = self.handles.waiting.signal(Signal::HUP);
    }
}

fn session(
    name: &SandboxName,
    handles: Handles,
    machine: OwnedFd,
    streams: Vec<(File, Wrap)>,
) -> ExecSession {
    let handles = Arc::new(handles);
    ExecSession {
        session: None,
        input: Box::new(Input(handles.clone())),
        output: Box::new(Output { name: name.clone(), handles, machine, streams, deadline: None }),
    }
}

pub(super) fn on_pipes(
    name: &SandboxName,
    waiting: Waiting,
    machine: OwnedFd,
    (stdin, stdout, stderr): Streams,
) -> ExecSession {
    let stdin = stdin.map(|pipe| File::from(OwnedFd::from(pipe)));
    let stdout = stdout.map(|pipe| (File::from(OwnedFd::from(pipe)), ExecEvent::Stdout as Wrap));
    let stderr = stderr.map(|pipe| (File::from(OwnedFd::from(pipe)), ExecEvent::Stderr as Wrap));
    let handles = Handles { waiting, stdin: Mutex::new(stdin), terminal: None };
    session(name, handles, machine, stdout.into_iter().chain(stderr).collect())
}

pub(super) fn on_terminal(
    name: &SandboxName,
    waiting: Waiting,
    machine: OwnedFd,
    master: OwnedFd,
) -> Result<ExecSession> {
    let stdin = File::from(master.as_fd().try_clone_to_owned()?);
    let stdout = File::from(master.as_fd().try_clone_to_owned()?);
    let handles = Handles { waiting, stdin: Mutex::new(Some(stdin)), terminal: Some(master) };
    Ok(session(name, handles, machine, vec![(stdout, ExecEvent::Stdout as Wrap)]))
}

/// The command runs and nobody hears of it any more.
pub(super) fn detached() -> ExecSession {
    struct Nothing;

    impl ExecInput for Nothing {
        fn write(&mut self, _bytes: &[u8]) -> Result<()> {
            Err(std::io::Error::from(std::io::ErrorKind::BrokenPipe).into())
        }

        fn close(&mut self) -> Result<()> {
            Ok(())
        }

        fn resize(&mut self, _size: TermSize) -> Result<()> {
            Ok(())
        }

        fn signal(&mut self, _signal: i32) -> Result<()> {
            Err(RuntimeError::Unsupported("a detached command takes no signals"))
        }

        fn try_clone(&self) -> Result<Box<dyn ExecInput>> {
            Ok(Box::new(Self))
        }
    }

    impl ExecOutput for Nothing {
        fn next(&mut self) -> Result<ExecEvent> {
            Ok(ExecEvent::Exited(ExitStatus::SUCCESS))
        }

        fn set_deadline(&mut self, _deadline: Option<Instant>) {}
    }

    ExecSession { session: None, input: Box::new(Nothing), output: Box::new(Nothing) }
}

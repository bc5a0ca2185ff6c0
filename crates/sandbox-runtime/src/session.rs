use std::io::{Read, Write};
use std::time::{Duration, Instant};

use sandbox_model::{ExitStatus, TermSize};

use crate::{Result, RuntimeError};

/// The most that is taken of a command whose output is gathered, in bytes: of both streams together.
const MOST_OUTPUT: usize = 8 << 20;

/// A raw byte stream to a port in the guest. Both halves may be used from different threads through
/// `try_clone`; `shutdown_write` tells the guest's side that nothing more comes.
pub trait Connection: Read + Write + Send {
    /// A second handle to the same stream: what one reads, the other does not.
    fn try_clone(&self) -> Result<Box<dyn Connection>>;
    /// The end of what is written, for every handle. What the guest's side still says can be read.
    fn shutdown_write(&mut self) -> Result<()>;
    /// `None` waits for ever.
    fn set_timeout(&mut self, timeout: Option<Duration>) -> Result<()>;
}

/// What a command says, in the order in which it is told here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecEvent {
    /// Bytes as they came, not lines; with a terminal, everything it shows.
    Stdout(Vec<u8>),
    /// The same of the other stream; never with a terminal.
    Stderr(Vec<u8>),
    /// The last event; all output came before it.
    Exited(ExitStatus),
}

/// Towards the command. All methods may block while the guest takes no more input.
pub trait ExecInput: Send {
    /// Bytes for stdin, or typed on the terminal. All of them are taken, or it is an error.
    fn write(&mut self, bytes: &[u8]) -> Result<()>;
    /// End of input; harmless to repeat.
    fn close(&mut self) -> Result<()>;
    /// The terminal has another size now; without one nothing happens.
    fn resize(&mut self, size: TermSize) -> Result<()>;
    /// To the command's process group.
    fn signal(&mut self, signal: i32) -> Result<()>;
    /// A second handle to the same command: one thread feeds stdin while another resizes.
    fn try_clone(&self) -> Result<Box<dyn ExecInput>>;
}

/// From the command.
pub trait ExecOutput: Send {
    /// Blocks for the next event. After `Exited` it must not be called again.
    fn next(&mut self) -> Result<ExecEvent>;
    /// From then on `next` fails with [`std::io::ErrorKind::TimedOut`] instead of waiting, and the session is of no
    /// more use; `None` waits for ever.
    fn set_deadline(&mut self, deadline: Option<Instant>);
}

/// A running command. Dropping both halves hangs up: the guest sends its process group SIGHUP.
///
/// The session of a detached command ends at once, with `Exited` and code 0, when the command runs.
/// A command that could not be run is [`crate::RuntimeError::ExecFailed`], from `exec` itself or from the
/// first `next`.
///
/// With [`sandbox_model::ExecSpec::keep`], where the runtime keeps sessions, dropping both halves leaves the
/// command running.
pub struct ExecSession {
    /// The number of a command that is kept.
    pub session: Option<u32>,
    /// Towards the command; it may go to another thread.
    pub input: Box<dyn ExecInput>,
    /// From the command, likewise.
    pub output: Box<dyn ExecOutput>,
}

impl std::fmt::Debug for ExecSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExecSession").finish_non_exhaustive()
    }
}

/// All output of a command, and how it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collected {
    /// All of it, as bytes.
    pub stdout: Vec<u8>,
    /// Empty with a terminal, whose one stream is `stdout`.
    pub stderr: Vec<u8>,
    /// How the command ended.
    pub status: ExitStatus,
}

impl ExecSession {
    /// [`ExecSession::collect_within`] an hour.
    pub fn collect(self) -> Result<Collected> {
        self.collect_within("the command", Duration::from_hours(1))
    }

    /// Closes the input and gathers everything until the command ends, as [`gather`] does.
    pub fn collect_within(mut self, command: &'static str, within: Duration) -> Result<Collected> {
        self.input.close()?;
        gather(self.output, command, within)
    }
}

/// Everything that a command of ours says until it ends. `command` is what an error calls it.
///
/// Whoever is root in a sandbox decides what answers there: one that says more than 8 MiB, or does not end
/// `within` that time, is hung up, and is [`RuntimeError::TooMuchOutput`] or [`RuntimeError::NotInTime`].
pub fn gather(mut output: Box<dyn ExecOutput>, command: &'static str, within: Duration) -> Result<Collected> {
    let late = || RuntimeError::NotInTime { command, seconds: within.as_secs() };
    let deadline = Instant::now() + within;
    output.set_deadline(Some(deadline));
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    loop {
        let (stream, bytes) = match output.next() {
            Ok(ExecEvent::Stdout(bytes)) => (&mut stdout, bytes),
            Ok(ExecEvent::Stderr(bytes)) => (&mut stderr, bytes),
            Ok(ExecEvent::Exited(status)) => return Ok(Collected { stdout, stderr, status }),
            Err(RuntimeError::Io(error)) if error.kind() == std::io::ErrorKind::TimedOut => {
                return Err(late());
            }
            Err(error) => return Err(error),
        };
        stream.extend(bytes);
        if stdout.len() + stderr.len() > MOST_OUTPUT {
            return Err(RuntimeError::TooMuchOutput { command, mib: MOST_OUTPUT >> 20 });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Says the same for ever, or nothing.
    struct Flood {
        event: ExecEvent,
        deadline: Option<Instant>,
    }

    impl ExecOutput for Flood {
        fn next(&mut self) -> Result<ExecEvent> {
            match self.deadline {
                Some(deadline) if Instant::now() >= deadline => {
                    Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into())
                }
                _ => Ok(self.event.clone()),
            }
        }

        fn set_deadline(&mut self, deadline: Option<Instant>) {
            self.deadline = deadline;
        }
    }

    #[test]
    fn what_never_ends_is_ended() {
        let flood = |event, within| gather(Box::new(Flood { event, deadline: None }), "it", within);
        for event in [ExecEvent::Stdout(vec![b'x'; 1 << 16]), ExecEvent::Stderr(vec![b'x'; 1 << 16])] {
            let ended = flood(event, Duration::from_mins(1));
            assert!(matches!(ended, Err(RuntimeError::TooMuchOutput { command: "it", mib: 8 })), "{ended:?}");
        }
        let ended = flood(ExecEvent::Stdout(Vec::new()), Duration::from_millis(10));
        assert!(matches!(ended, Err(RuntimeError::NotInTime { command: "it", .. })), "{ended:?}");
        let ended = flood(ExecEvent::Exited(ExitStatus::SUCCESS), Duration::from_mins(1)).unwrap();
        assert_eq!(ended.status, ExitStatus::SUCCESS, "the door");
    }
}

use std::io::{Read, Write};

use sandbox_model::{ExitStatus, TermSize};

use crate::Result;

/// A raw byte stream to a port in the guest. Both halves may be used from different threads through
/// `try_clone`; `shutdown_write` tells the guest's side that nothing more comes.
pub trait Connection: Read + Write + Send {
    fn try_clone(&self) -> Result<Box<dyn Connection>>;
    fn shutdown_write(&mut self) -> Result<()>;
    /// `None` waits for ever.
    fn set_timeout(&mut self, timeout: Option<std::time::Duration>) -> Result<()>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecEvent {
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
    /// The last event; all output came before it.
    Exited(ExitStatus),
}

/// Towards the command. All methods may block while the guest takes no more input.
pub trait ExecInput: Send {
    fn write(&mut self, bytes: &[u8]) -> Result<()>;
    /// End of input; harmless to repeat.
    fn close(&mut self) -> Result<()>;
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
    pub input: Box<dyn ExecInput>,
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
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub status: ExitStatus,
}

impl ExecSession {
    /// Closes the input and gathers everything until the command ends.
    pub fn collect(mut self) -> Result<Collected> {
        self.input.close()?;
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        loop {
            match self.output.next()? {
                ExecEvent::Stdout(bytes) => stdout.extend(bytes),
                ExecEvent::Stderr(bytes) => stderr.extend(bytes),
                ExecEvent::Exited(status) => return Ok(Collected { stdout, stderr, status }),
            }
        }
    }
}

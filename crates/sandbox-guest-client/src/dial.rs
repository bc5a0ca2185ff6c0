use std::io::{Error, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use sandbox_model::SandboxName;
use sandbox_runtime::{Connection, RuntimeError};
use sandbox_wire::{GuestReply, GuestRequest};

use crate::frames::{lost, read};

/// Makes a stream of the guest program a raw connection to a TCP port on the guest's loopback.
pub fn dial(
    name: &SandboxName,
    mut socket: UnixStream,
    port: u16,
) -> Result<Box<dyn Connection>, RuntimeError> {
    sandbox_wire::write_message(&mut socket, &GuestRequest::Dial { port })
        .map_err(|error| lost(name, error))?;
    match read(name, &mut socket)? {
        GuestReply::Ok => Ok(Box::new(Dialled(socket))),
        GuestReply::Failed(problem) => Err(Error::new(ErrorKind::ConnectionRefused, problem).into()),
    }
}

/// Waits for the next program of the guest that wants to speak with the user's ssh-agent.
pub fn accept_ssh_agent(
    name: &SandboxName,
    mut socket: UnixStream,
) -> Result<Box<dyn Connection>, RuntimeError> {
    sandbox_wire::write_message(&mut socket, &GuestRequest::AcceptSshAgent)
        .map_err(|error| lost(name, error))?;
    match read(name, &mut socket)? {
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

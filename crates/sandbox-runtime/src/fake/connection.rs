use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::time::Duration;

use crate::{Connection, Result};

struct Tcp(TcpStream);

/// The guest's loopback is the host's.
pub(super) fn connect(port: u16) -> Result<Box<dyn Connection>> {
    Ok(Box::new(Tcp(TcpStream::connect((Ipv4Addr::LOCALHOST, port))?)))
}

impl Read for Tcp {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Tcp {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

impl Connection for Tcp {
    fn try_clone(&self) -> Result<Box<dyn Connection>> {
        Ok(Box::new(Self(self.0.try_clone()?)))
    }

    fn shutdown_write(&mut self) -> Result<()> {
        Ok(self.0.shutdown(Shutdown::Write)?)
    }

    fn set_timeout(&mut self, timeout: Option<Duration>) -> Result<()> {
        self.0.set_read_timeout(timeout)?;
        Ok(self.0.set_write_timeout(timeout)?)
    }
}

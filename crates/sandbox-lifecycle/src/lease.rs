use std::io::Read;
use std::os::unix::net::UnixStream;

/// A held connection to the keeper: the sandbox is not stopped while it is open. Ends when dropped, and
/// with the process, however that dies.
#[derive(Debug)]
pub struct Lease {
    connection: UnixStream,
    other_clients: u32,
}

impl Lease {
    /// Clients that were attached when this one came, this one not counted.
    pub const fn other_clients(&self) -> u32 {
        self.other_clients
    }

    /// Blocks until the keeper is gone; then nobody watches the sandbox any more.
    pub fn wait_for_end(&mut self) {
        let mut byte = [0];
        while matches!(self.connection.read(&mut byte), Ok(1)) {}
    }
}

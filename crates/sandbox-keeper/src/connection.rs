use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use sandbox_wire::{ClientInfo, KeeperReply, KeeperRequest, read_json, write_json};

/// A request is a name and a number; whoever sends more is not one of us.
const MAX_REQUEST: usize = 16 * 1024;

/// One client, as the keeper sees it. Nothing here blocks.
pub(crate) struct Connection {
    stream: UnixStream,
    received: Vec<u8>,
    pub role: Role,
}

pub(crate) enum Role {
    /// Has not said what it wants, or was answered.
    Asking {
        since: Instant,
    },
    Client(ClientInfo),
    /// Waits for this process to end.
    Waiting,
}

/// What a look at a connection found.
pub(crate) enum Heard {
    Nothing,
    Request(KeeperRequest),
    /// Closed, or not worth keeping.
    Gone,
}

impl Connection {
    pub fn new(stream: UnixStream, now: Instant) -> std::io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { stream, received: Vec::new(), role: Role::Asking { since: now } })
    }

    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Reads what is there.
    pub fn hear(&mut self) -> Heard {
        // A second request may have come with the first.
        if matches!(self.role, Role::Asking { .. })
            && let Some(heard) = self.request()
        {
            return heard;
        }
        let mut chunk = [0; 1024];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => return Heard::Gone,
                Ok(count) if matches!(self.role, Role::Asking { .. }) => {
                    self.received.extend_from_slice(&chunk[..count]);
                    if let Some(heard) = self.request() {
                        return heard;
                    }
                }
                // A client that holds or waits has nothing more to say.
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Heard::Nothing,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Heard::Gone,
            }
        }
    }

    fn request(&mut self) -> Option<Heard> {
        let length = self.received.first_chunk::<4>()?;
        let end = 4 + u32::from_le_bytes(*length) as usize;
        if end > MAX_REQUEST {
            return Some(Heard::Gone);
        }
        let frame = self.received.get(..end)?;
        let heard = match read_json(&mut &*frame) {
            Ok(request) => Heard::Request(request),
            Err(_) => Heard::Gone,
        };
        self.received.drain(..end);
        Some(heard)
    }

    /// A client that does not take its small answer is gone.
    pub fn answer(&mut self, reply: &KeeperReply) -> bool {
        write_json(&mut self.stream, reply).is_ok()
    }
}

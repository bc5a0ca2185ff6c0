use std::io::{ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use sandbox_state::{KeeperFiles, StateError, connect_socket};
use sandbox_wire::{ClientInfo, FrameError, KeeperReply, KeeperRequest, KeeperStatus, read_json, write_json};

use crate::{ClientError, Ready};

/// A keeper answers in well under a millisecond; one that does not is stuck.
const PATIENCE: Duration = Duration::from_secs(10);
/// A keeper that ends and one that begins may miss each other for a moment.
const ATTEMPTS: u32 = 50;

/// The sandbox stays up for as long as this lives. Ends when dropped, and with the process, however that
/// dies; a child does not inherit it.
#[derive(Debug)]
pub struct Lease {
    stream: UnixStream,
    other_clients: u32,
}

/// The keeper is stopping the sandbox.
#[derive(Debug)]
pub struct Draining {
    stream: UnixStream,
}

/// What asking for a lease came to.
#[derive(Debug)]
pub enum LeaseOutcome {
    /// The sandbox stays up for as long as the lease lives.
    Leased(Lease),
    /// Nobody watches the sandbox: start it where it does not run, then a keeper, then ask again.
    NoKeeper,
    /// Wait, then start the sandbox and a keeper.
    Draining(Draining),
}

impl Lease {
    /// Clients that were there when this one came, this one not counted.
    pub const fn other_clients(&self) -> u32 {
        self.other_clients
    }

    /// Blocks until the keeper is gone; then nobody watches the sandbox any more, or it is gone itself.
    pub fn wait_for_end(&mut self) {
        wait_for_end(&mut self.stream);
    }

    /// A second handle to the same lease, for a thread that waits for its end. The lease lasts until both
    /// are dropped.
    pub fn try_clone(&self) -> std::io::Result<Self> {
        Ok(Self { stream: self.stream.try_clone()?, other_clients: self.other_clients })
    }
}

impl Draining {
    /// Blocks until the keeper is gone: the sandbox is at rest, unless stopping it failed.
    pub fn wait(mut self) {
        wait_for_end(&mut self.stream);
    }
}

/// The keeper says nothing more: whatever is read, it is the end or nothing.
fn wait_for_end(stream: &mut UnixStream) {
    let mut byte = [0];
    loop {
        match stream.read(&mut byte) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// Asks the keeper of a sandbox to hold it.
pub fn lease(files: &KeeperFiles, client: ClientInfo) -> Result<LeaseOutcome, ClientError> {
    let Some((stream, reply)) = ask(files, &KeeperRequest::Lease(client))? else {
        return Ok(LeaseOutcome::NoKeeper);
    };
    match reply {
        KeeperReply::Leased { other_clients } => Ok(LeaseOutcome::Leased(Lease { stream, other_clients })),
        KeeperReply::Draining => Ok(LeaseOutcome::Draining(Draining { stream })),
        other @ KeeperReply::Status(_) => Err(ClientError::Malformed(format!("{other:?}"))),
    }
}

/// Like [`lease`], and starts a keeper where there is none. The sandbox runs, and the caller holds the lock
/// that keeps others from stopping and starting it.
///
/// `start` starts a keeper, usually through [`crate::spawn`]. [`LeaseOutcome::NoKeeper`] means that the new
/// keeper found nothing to keep: the sandbox does not run any more.
pub fn lease_or_start(
    files: &KeeperFiles,
    client: &ClientInfo,
    start: &mut dyn FnMut() -> Result<Ready, ClientError>,
) -> Result<LeaseOutcome, ClientError> {
    for attempt in 1..=ATTEMPTS {
        match lease(files, client.clone())? {
            LeaseOutcome::NoKeeper => {}
            other => return Ok(other),
        }
        match start()? {
            Ready::Serving => {}
            Ready::NothingToKeep => return Ok(LeaseOutcome::NoKeeper),
            // One that is going, or one that is coming: either is quick.
            Ready::AlreadyKept => std::thread::sleep(Duration::from_millis(2) * attempt),
            Ready::Failed { problem } => {
                return Err(ClientError::NotStarted { problem, log: crate::journal::tail(&files.log) });
            }
        }
    }
    Err(ClientError::Unstable(ATTEMPTS))
}

/// What the keeper of a sandbox says; `None` when there is no keeper.
pub fn status(files: &KeeperFiles) -> Result<Option<KeeperStatus>, ClientError> {
    match ask(files, &KeeperRequest::Status)? {
        None => Ok(None),
        Some((_, KeeperReply::Status(status))) => Ok(Some(status)),
        Some((_, other)) => Err(ClientError::Malformed(format!("{other:?}"))),
    }
}

/// `None` when nobody is there, or is gone before it answers.
fn ask(
    files: &KeeperFiles,
    request: &KeeperRequest,
) -> Result<Option<(UnixStream, KeeperReply)>, ClientError> {
    let mut stream = match connect_socket(&files.socket) {
        Ok(stream) => stream,
        Err(StateError::Io(error))
            if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(error.into()),
    };
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let reply = write_json(&mut stream, request).and_then(|()| read_json(&mut stream));
    match reply {
        Ok(reply) => {
            stream.set_read_timeout(None)?;
            Ok(Some((stream, reply)))
        }
        Err(FrameError::Closed) => Ok(None),
        Err(FrameError::Io(error)) => match error.kind() {
            ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => Ok(None),
            ErrorKind::WouldBlock | ErrorKind::TimedOut => Err(ClientError::Silent),
            _ => Err(error.into()),
        },
        Err(error) => Err(ClientError::Malformed(error.to_string())),
    }
}

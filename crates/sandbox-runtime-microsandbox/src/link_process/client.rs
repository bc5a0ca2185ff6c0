//! Asking a link process.

use std::io::{ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use fs_err as fs;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::socket_peercred;
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use sandbox_model::PortForward;
use sandbox_runtime::RuntimeError;
use sandbox_state::{connect_socket, is_locked};
use sandbox_wire::{FrameError, GUEST_PROTOCOL, LinkReply, LinkRequest};

use crate::answer;
use crate::call::answered;
use crate::files::SandboxPaths;

/// For its first word. One that is busy for longer is done without.
const ANSWERS_WITHIN: Duration = Duration::from_secs(1);
/// For a link that it has to open first. Whoever has waited so long tries it himself.
const OPENS_WITHIN: Duration = Duration::from_secs(10);
/// For its end, once it is told to leave. Then it is ended.
const LEAVES_WITHIN: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// Why ports cannot change.
pub const AT_THE_NEXT_START: &str = "the ports of this sandbox change at its next start";

/// The link of a link process.
#[derive(Debug, Clone)]
pub struct SharedLink {
    paths: SandboxPaths,
    /// Which of the link process's.
    generation: u64,
}

impl SharedLink {
    /// A stream of it. `None` where there is no link process, or none of our guest program's protocol, or none that
    /// answers, or none that gets into the guest.
    pub fn stream(paths: &SandboxPaths, patience: Duration) -> Option<(Self, UnixStream)> {
        let mut socket = connect_socket(&paths.link_socket()).ok()?;
        let generation = match ask(&mut socket, patience) {
            Ok(LinkReply::Ready { generation }) => generation,
            Ok(answer) => {
                tracing::debug!("the link process does not serve: {answer:?}");
                return None;
            }
            Err(error) => {
                tracing::debug!("the link process does not answer: {error}");
                return None;
            }
        };
        socket.set_read_timeout(None).and_then(|()| socket.set_write_timeout(None)).ok()?;
        Some((Self { paths: paths.clone(), generation }, socket))
    }

    /// Begins something on a stream. The guest's first answer has a deadline, as over a link of this process's own;
    /// where it does not come, the link is no other's from now on, and at the deadline it ends.
    pub fn begin<T>(
        &self,
        stream: UnixStream,
        deadline: Duration,
        start: impl FnOnce(UnixStream) -> Result<T, RuntimeError>,
    ) -> Result<T, RuntimeError> {
        let (link, begun) = (self.clone(), Instant::now());
        let late = move || link.report(&LinkRequest::Renew { generation: link.generation });
        let link = self.clone();
        let over = move || link.report(&LinkRequest::Kill { generation: link.generation });
        let outcome = answer::within(stream, deadline, late, over, start);
        answered(begun);
        outcome
    }

    fn report(&self, trouble: &LinkRequest) {
        if let Err(error) = tell(&self.paths, trouble) {
            tracing::debug!("the link process hears of no trouble: {error}");
        }
    }
}

fn ask(socket: &mut UnixStream, patience: Duration) -> Result<LinkReply, FrameError> {
    socket.set_read_timeout(Some(ANSWERS_WITHIN.min(patience)))?;
    socket.set_write_timeout(Some(ANSWERS_WITHIN.min(patience)))?;
    sandbox_wire::write_json(socket, &LinkRequest::Stream { guest_protocol: GUEST_PROTOCOL })?;
    match sandbox_wire::read_json(socket)? {
        LinkReply::Here { guest_protocol: GUEST_PROTOCOL, .. } => {}
        other => return Ok(other),
    }
    socket.set_read_timeout(Some(OPENS_WITHIN.min(patience)))?;
    sandbox_wire::read_json(socket)
}

/// Has the link process close ports and open others: all or none. One that was begun just now is awaited for so long.
pub fn change_ports(
    paths: &SandboxPaths,
    open: &[PortForward],
    close: &[PortForward],
    within: Duration,
) -> Result<(), RuntimeError> {
    let request = LinkRequest::Ports { open: open.to_vec(), close: close.to_vec() };
    let end = Instant::now() + within;
    let mut socket = loop {
        match tell(paths, &request) {
            Ok(socket) => break socket,
            Err(error) if Instant::now() > end => {
                return Err(RuntimeError::Other {
                    context: "the process that serves the sandbox's ports cannot be reached".into(),
                    source: Some(Box::new(error)),
                });
            }
            Err(_) => std::thread::sleep(LOOK_AGAIN),
        }
    };
    socket.set_read_timeout(Some(OPENS_WITHIN))?;
    match sandbox_wire::read_json(&mut socket) {
        Ok(LinkReply::Ports) => Ok(()),
        Ok(LinkReply::Refused { reason }) => Err(RuntimeError::other(reason)),
        Err(FrameError::Io(error)) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            Err(RuntimeError::other("the process that serves the sandbox's ports does not answer"))
        }
        answer => {
            tracing::debug!("the link process changes no ports: {answer:?}");
            // One of an earlier version does not know the question, and lives on.
            Err(match is_locked(&paths.link_lock()) {
                Ok(false) => RuntimeError::other("the process that serves the sandbox's ports has ended"),
                _ => RuntimeError::Unsupported(AT_THE_NEXT_START),
            })
        }
    }
}

fn tell(paths: &SandboxPaths, request: &LinkRequest) -> Result<UnixStream, RuntimeError> {
    let mut socket = connect_socket(&paths.link_socket()).map_err(crate::error::from_state)?;
    socket.set_write_timeout(Some(ANSWERS_WITHIN))?;
    sandbox_wire::write_json(&mut socket, request).map_err(|error| RuntimeError::other(error.to_string()))?;
    Ok(socket)
}

/// Ends the link process of a machine that was ended, if there is one, and leaves no socket.
pub fn end(paths: &SandboxPaths) {
    if let Ok(mut socket) = tell(paths, &LinkRequest::Leave)
        && !has_closed(&mut socket)
    {
        kill(&socket);
    }
    // What one left that was killed. One that lives all the same still has the use of its own.
    if matches!(is_locked(&paths.link_lock()), Ok(false)) {
        let _ = fs::remove_file(paths.link_socket());
    }
}

/// It closes the connection by ending.
fn has_closed(socket: &mut UnixStream) -> bool {
    let end = Instant::now() + LEAVES_WITHIN;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || socket.set_read_timeout(Some(left)).is_err() {
            return false;
        }
        match socket.read(&mut [0; 64]) {
            Ok(0) => return true,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return true,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            _ => {}
        }
    }
}

/// Whoever listened on the socket: the kernel tells, and the number is its own for as long as the socket is open.
fn kill(socket: &UnixStream) {
    let Some(process) =
        socket_peercred(socket).ok().and_then(|peer| pidfd_open(peer.pid, PidfdFlags::empty()).ok())
    else {
        return;
    };
    let limit = Timespec { tv_sec: LEAVES_WITHIN.as_secs().cast_signed(), tv_nsec: 0 };
    if pidfd_send_signal(&process, Signal::KILL).is_ok() {
        let _ = poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&limit));
    }
}

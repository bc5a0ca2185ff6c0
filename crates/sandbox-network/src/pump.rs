use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use msb_krun::backends::net::{NetBackend, ReadError};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::bridge::BridgeError;
use crate::framing::{Deframer, MAX_FRAME, PREFIX, append_frame};
use crate::turns::Turns;
use crate::wake::wake_fd;
use crate::watch::Watch;

/// What the engine's interface puts before a frame: a virtio-net header, all zero.
const ENGINE_HEADER: usize = 12;
/// Bytes that may wait for QEMU before the engine is left to wait in turn.
const HIGH_WATER: usize = 256 * 1024;

/// Frames both ways until QEMU closes its end, in batches: one read or write of the socket for as many
/// frames as there are.
///
/// A burst that overruns the engine's ring of 1,024 frames is dropped there, as on a network card; what must
/// arrive is sent again.
pub(crate) fn pump(
    mut guest: UnixStream,
    backend: &mut (dyn NetBackend + Send),
    watch: &mut Watch,
    turns: &mut Turns,
) -> Result<(), BridgeError> {
    guest.set_nonblocking(true).map_err(BridgeError::Socket)?;
    let wake: OwnedFd = wake_fd(backend).try_clone_to_owned().map_err(BridgeError::Socket)?;
    let mut inward = Deframer::new();
    let mut outward = Outward::new();
    loop {
        let readable = wait(&guest, &wake, &outward)?;
        if readable {
            match guest.read(inward.space()) {
                Ok(0) => return Ok(()),
                Ok(count) => inward.filled(count),
                Err(error) if is_gone(&error) => return Ok(()),
                Err(error) if is_later(&error) => {}
                Err(error) => return Err(BridgeError::Socket(error)),
            }
            let mut first_words = false;
            while let Some(frame) = inward.next().map_err(BridgeError::Frame)? {
                first_words |= watch.guest_sent(&frame[PREFIX..]);
                // The engine skips as many bytes as it is told a header has: the prefix serves as one.
                // It never refuses, it drops.
                let _ = backend.write_frame(PREFIX, frame);
            }
            if first_words {
                turns.ask(backend);
            }
        }
        if outward.is_empty() {
            outward.drain(backend, watch, turns);
        }
        match outward.send(&mut guest) {
            Ok(()) => {}
            Err(error) if is_gone(&error) => return Ok(()),
            Err(error) => return Err(BridgeError::Socket(error)),
        }
    }
}

/// Sleeps until there is something to do; whether the guest's socket has something to read, or ended.
fn wait(guest: &UnixStream, wake: &OwnedFd, outward: &Outward) -> Result<bool, BridgeError> {
    // With frames still waiting for QEMU, more of them from the engine would only pile up.
    let (guest_events, wake_events) = if outward.is_empty() {
        (PollFlags::IN, PollFlags::IN)
    } else {
        (PollFlags::IN | PollFlags::OUT, PollFlags::empty())
    };
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    let timeout = (outward.is_empty() && outward.engine_has_more).then_some(&now);
    let mut fds = [
        PollFd::from_borrowed_fd(guest.as_fd(), guest_events),
        PollFd::from_borrowed_fd(wake.as_fd(), wake_events),
    ];
    match poll(&mut fds, timeout) {
        Ok(_) => Ok(fds[0].revents().intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR)),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(BridgeError::Socket(error.into())),
    }
}

/// QEMU ended, whether it closed first or died with frames unread.
fn is_gone(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
}

fn is_later(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// Frames on their way to QEMU.
struct Outward {
    bytes: Vec<u8>,
    sent: usize,
    /// The last drain stopped at the high-water mark.
    engine_has_more: bool,
    frame: Vec<u8>,
}

impl Outward {
    fn new() -> Self {
        Self {
            bytes: Vec::with_capacity(HIGH_WATER + PREFIX + MAX_FRAME),
            sent: 0,
            // Whatever came before the first look.
            engine_has_more: true,
            frame: vec![0; ENGINE_HEADER + MAX_FRAME],
        }
    }

    fn is_empty(&self) -> bool {
        self.sent == self.bytes.len()
    }

    fn drain(&mut self, backend: &mut (dyn NetBackend + Send), watch: &mut Watch, turns: &mut Turns) {
        self.bytes.clear();
        self.sent = 0;
        self.engine_has_more = false;
        while let Ok(count) = backend.read_frame(&mut self.frame).inspect_err(|error| {
            debug_assert!(matches!(error, ReadError::NothingRead), "the engine only says when it is empty");
        }) {
            let frame = &self.frame[ENGINE_HEADER..count];
            if turns.heard(frame, backend) {
                continue;
            }
            watch.guest_receives(frame);
            append_frame(&mut self.bytes, frame);
            if self.bytes.len() >= HIGH_WATER {
                self.engine_has_more = true;
                break;
            }
        }
    }

    fn send(&mut self, guest: &mut UnixStream) -> std::io::Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        match guest.write(&self.bytes[self.sent..]) {
            Ok(count) => self.sent += count,
            Err(error) if is_later(&error) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

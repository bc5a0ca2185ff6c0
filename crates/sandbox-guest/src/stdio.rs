//! A link over standard input and output: for a runtime with an init and a boot of its own, whose way of running
//! commands carries the link.
//!
//! ```text
//! host ══ stdin, stdout ══ stdio (one per link) ── socket ── daemon (one per boot of the guest)
//! ```
//!
//! All links are served by one process, so that all hosts know the same sessions, and none ends with its link. The
//! first of them leaves the program in the guest's memory for the others.

pub mod daemon;
mod place;
mod resident;

use std::fs::File;
use std::io::{self, Read, Stdout, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::exit;
use std::thread;
use std::time::Duration;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::console::say;
use place::Place;

/// The argument that asks for this. A folder after it is where the daemon listens instead, on a machine that stays
/// as it is.
pub const MODE: &str = "stdio";
/// What a pipe holds.
const BUFFER: usize = 64 * 1024;
/// How long what was on its way may take to arrive once the host's side has ended.
const LEAVES_WITHIN: Duration = Duration::from_secs(2);

/// Carries one link until either of its sides is gone.
pub fn run(folder: Option<&Path>) -> ! {
    let place = folder.map_or_else(Place::of_this_guest, Place::apart);
    match place.connect().and_then(carry) {
        Ok(()) => exit(0),
        Err(error) => {
            say(format_args!("the link failed: {error}"));
            exit(1)
        }
    }
}

fn carry(daemon: UnixStream) -> io::Result<()> {
    let (mut host, mut output) =
        (Host { input: own(&io::stdin())?, output: io::stdout() }, own(&io::stdout())?);
    let (mut from_daemon, mut to_daemon) = (daemon.try_clone()?, daemon);
    thread::Builder::new().spawn(move || {
        let mut daemon_listens = true;
        // A daemon that is gone is the other direction's to tell; here only the host's end counts.
        let _ = pass(&mut host, |bytes| {
            daemon_listens = daemon_listens && to_daemon.write_all(bytes).is_ok();
            Ok(())
        });
        // However the host's side ends: the daemon sees an end, and closes its side in turn.
        let _ = to_daemon.shutdown(Shutdown::Write);
        thread::sleep(LEAVES_WITHIN);
        // What the daemon still said is read by nobody.
        exit(0)
    })?;
    match pass(&mut from_daemon, |bytes| output.write_all(bytes)) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        // The daemon has ended the link, or the host is gone.
        _ => Ok(()),
    }
}

/// What the host says, up to its end: that of the input, or when nobody is left to read the output.
struct Host {
    input: File,
    output: Stdout,
}

impl Read for Host {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let input = PollFd::new(self.input.as_fd(), PollFlags::POLLIN);
        let output = PollFd::new(self.output.as_fd(), PollFlags::empty());
        let mut both = [input, output];
        poll(&mut both, PollTimeout::NONE)?;
        let nobody = PollFlags::POLLERR | PollFlags::POLLHUP;
        if both[1].revents().is_some_and(|found| found.intersects(nobody)) {
            return Ok(0);
        }
        self.input.read(buffer)
    }
}

/// Not `io::copy`, which splices: the kernel keeps a pipe locked while it waits for a socket to fill it, and whoever
/// reads that pipe, or asks what is in it, hangs where no signal reaches them.
fn pass(from: &mut impl Read, mut to: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(length) => to(&buffer[..length])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// A descriptor of its own that waits, whatever it was opened for.
fn own(stream: &impl AsFd) -> io::Result<File> {
    let owned: OwnedFd = stream.as_fd().try_clone_to_owned()?;
    let flags = OFlag::from_bits_truncate(fcntl(&owned, FcntlArg::F_GETFL)?);
    fcntl(&owned, FcntlArg::F_SETFL(flags & !OFlag::O_NONBLOCK))?;
    Ok(File::from(owned))
}

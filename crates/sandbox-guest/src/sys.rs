//! The system calls that Rust cannot check. Nothing else in this crate is unsafe.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;

use nix::fcntl::{OFlag, open};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigHandler, Signal, signal};
use nix::sys::stat::{Mode, umask};
use nix::unistd::{Gid, Uid, setgid, setgroups, setsid, setuid, write};
use sandbox_model::TermSize;
use tokio::io::unix::AsyncFd;
use tokio::process::Command;

/// Open files: what programs expect to begin with, and what they may raise it to.
const NOFILE: (u64, u64) = (1024, 1_048_576);

mod ioctls {
    nix::ioctl_write_ptr_bad!(set_size, libc::TIOCSWINSZ, libc::winsize);
    nix::ioctl_write_int_bad!(take_terminal, libc::TIOCSCTTY);
    nix::ioctl_write_int_bad!(open_peer, libc::TIOCGPTPEER);
}

/// What a new process turns itself into before it runs its program.
#[derive(Debug, Clone)]
pub struct Birth {
    /// Make standard input the controlling terminal.
    pub terminal: bool,
    /// Change to this user; `None` stays who we are.
    pub credentials: Option<Credentials>,
}

/// A user as the kernel knows one.
#[derive(Debug, Clone)]
pub struct Credentials {
    pub uid: Uid,
    pub gid: Gid,
    pub groups: Vec<Gid>,
}

impl Birth {
    /// Arranges for the command's process to go through this birth: a session of its own, default signals,
    /// sane limits, then the user.
    pub fn prepare(self, command: &mut Command) {
        // SAFETY: `happen` runs between fork and exec. It only makes system calls on values that it owns:
        // it allocates nothing, takes no lock and touches no state of the parent.
        unsafe {
            command.pre_exec(move || self.happen());
        }
    }

    fn happen(&self) -> io::Result<()> {
        for number in Signal::iterator().filter(|s| !matches!(s, Signal::SIGKILL | Signal::SIGSTOP)) {
            // SAFETY: the default action runs no code of ours.
            let _ = unsafe { signal(number, SigHandler::SigDfl) };
        }
        // Whoever opened a descriptor without thinking of this moment: it ends here.
        // SAFETY: the call only marks descriptors; they stay open until the program runs.
        unsafe { libc::close_range(3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC.cast_signed()) };
        umask(Mode::from_bits_truncate(0o022));
        setsid()?;
        if self.terminal {
            // SAFETY: descriptor 0 is the terminal; the argument is an integer.
            unsafe { ioctls::take_terminal(libc::STDIN_FILENO, 0) }?;
        }
        // The agent process is protected from the kernel's memory killer; commands must not be.
        if let Ok(file) = open("/proc/self/oom_score_adj", OFlag::O_WRONLY | OFlag::O_CLOEXEC, Mode::empty())
        {
            let _ = write(&file, b"0");
        }
        let hard = NOFILE.1;
        if setrlimit(Resource::RLIMIT_NOFILE, NOFILE.0, hard).is_err() {
            // Without the right to raise the hard limit, the one that is there has to do.
            let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
            setrlimit(Resource::RLIMIT_NOFILE, NOFILE.0.min(hard), hard)?;
        }
        if let Some(credentials) = &self.credentials {
            setgroups(&credentials.groups)?;
            setgid(credentials.gid)?;
            setuid(credentials.uid)?;
        }
        Ok(())
    }
}

/// Arranges for a process that outlives its parent and all that its parent belongs to: a session of its own, and
/// nothing open but its standard streams.
pub fn outlive(command: &mut std::process::Command) {
    let apart = || {
        // SAFETY: the call only marks descriptors; they stay open until the program runs.
        unsafe { libc::close_range(3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC.cast_signed()) };
        setsid().map(drop).map_err(io::Error::from)
    };
    // SAFETY: it runs between fork and exec, and makes system calls alone.
    unsafe { command.pre_exec(apart) };
}

/// Tells a terminal its size; the kernel tells the programs on it.
pub fn set_size(terminal: BorrowedFd<'_>, size: TermSize) -> io::Result<()> {
    let size = libc::winsize { ws_row: size.rows, ws_col: size.cols, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the pointer is to a live `winsize`, which the kernel only reads.
    unsafe { ioctls::set_size(terminal.as_raw_fd(), &raw const size) }?;
    Ok(())
}

/// A descriptor that the runtime wakes us for.
pub fn watch(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` stays the same open descriptor until it is dropped, which the `AsyncFd` does.
    unsafe { AsyncFd::register(descriptor) }.map_err(|error| error.into_parts().1)
}

/// The other end of a pseudo-terminal's master, opened without a path: whatever is mounted at `/dev/pts`
/// is of no importance.
pub fn open_peer(master: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
    // SAFETY: the argument is an integer; a success is a new descriptor that nobody else owns.
    unsafe {
        let peer = ioctls::open_peer(master.as_raw_fd(), flags)?;
        Ok(OwnedFd::from_raw_fd(peer))
    }
}

/// A copy of another process's descriptor. Needs the right to trace that process.
pub fn descriptor_of(pid: i32, descriptor: i32) -> io::Result<OwnedFd> {
    // SAFETY: the arguments are integers; a success is a new descriptor that nobody else owns.
    let process = unsafe {
        let fd = nix::errno::Errno::result(libc::syscall(libc::SYS_pidfd_open, pid, 0))?;
        OwnedFd::from_raw_fd(i32::try_from(fd).map_err(io::Error::other)?)
    };
    // SAFETY: as above.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), descriptor, 0);
        let fd = nix::errno::Errno::result(fd)?;
        Ok(OwnedFd::from_raw_fd(i32::try_from(fd).map_err(io::Error::other)?))
    }
}

/// Ends the connection of a socket as if its other side had reset it.
pub fn disconnect(socket: BorrowedFd<'_>) -> io::Result<()> {
    let nowhere = libc::sockaddr {
        sa_family: libc::sa_family_t::try_from(libc::AF_UNSPEC).unwrap_or_default(),
        sa_data: [0; 14],
    };
    let length = libc::socklen_t::try_from(size_of::<libc::sockaddr>()).map_err(io::Error::other)?;
    // SAFETY: the pointer is to a live `sockaddr` of that length, which the kernel only reads.
    let outcome = unsafe { libc::connect(socket.as_raw_fd(), &raw const nowhere, length) };
    nix::errno::Errno::result(outcome)?;
    Ok(())
}

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::pty::{grantpt, posix_openpt, unlockpt};
use nix::sys::termios::{LocalFlags, SpecialCharacterIndices, tcgetattr};
use nix::unistd::{Pid, read, tcgetpgrp, write};
use sandbox_model::TermSize;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, ReadBuf};

use crate::sys;

/// Our end of a command's terminal.
#[derive(Debug)]
pub struct Terminal(AsyncFd<OwnedFd>);

impl Terminal {
    /// A new terminal and the command's end of it.
    pub fn open(size: TermSize) -> io::Result<(Self, OwnedFd)> {
        let master = posix_openpt(OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        sys::set_size(master.as_fd(), size)?;
        let peer = sys::open_peer(master.as_fd())?;
        Ok((Self(sys::watch(master.as_fd().try_clone_to_owned()?)?), peer))
    }

    /// The kernel tells the foreground's processes, where the size is another one.
    pub fn resize(&self, size: TermSize) -> io::Result<()> {
        sys::set_size(self.0.get_ref().as_fd(), size)
    }

    /// The process group that the terminal's own keys would signal.
    pub fn foreground(&self) -> Option<Pid> {
        tcgetpgrp(self.0.get_ref()).ok().filter(|group| group.as_raw() > 0)
    }

    /// Writes what is typed; gives how much the terminal took.
    pub async fn type_in(&self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            let mut ready = self.0.writable().await?;
            if let Ok(outcome) = ready.try_io(|master| Ok(write(master.get_ref(), bytes)?)) {
                return outcome;
            }
        }
    }

    /// What to type so that a program reads the end of its input. `after_newline` is whether the last
    /// character typed ended a line: an unfinished one needs a key of its own.
    pub fn end_of_input(&self, after_newline: bool) -> Vec<u8> {
        const CTRL_D: u8 = 4;
        match tcgetattr(self.0.get_ref()) {
            Ok(modes) => {
                let key = modes.control_chars[SpecialCharacterIndices::VEOF as usize];
                let by_line = modes.local_flags.contains(LocalFlags::ICANON);
                vec![key; if by_line && !after_newline { 2 } else { 1 }]
            }
            Err(_) => vec![CTRL_D],
        }
    }
}

/// Reading as a pipe: a terminal whose last program is gone has ended.
#[derive(Debug)]
pub struct Screen<'a>(pub &'a Terminal);

impl AsyncRead for Screen<'_> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut ready = ready!(self.0.0.poll_read_ready(cx))?;
            let outcome = ready.try_io(|master| Ok(read(master.get_ref(), buf.initialize_unfilled())?));
            match outcome {
                Ok(Ok(length)) => {
                    buf.advance(length);
                    return Poll::Ready(Ok(()));
                }
                Ok(Err(error)) if error.raw_os_error() == Some(Errno::EIO as i32) => {
                    return Poll::Ready(Ok(()));
                }
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                Err(_would_block) => {}
            }
        }
    }
}

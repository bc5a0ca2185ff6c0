use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{Receiver, Sender, channel};

/// What threads tell the one that decides. It sleeps in `poll`, so a letter comes with a byte in a pipe.
pub(crate) struct Mailbox<T> {
    letters: Receiver<T>,
    bell: PipeReader,
}

pub(crate) struct Sending<T> {
    letters: Sender<T>,
    bell: PipeWriter,
}

pub(crate) fn mailbox<T>() -> std::io::Result<(Mailbox<T>, Sending<T>)> {
    let (sender, receiver) = channel();
    let (reader, writer) = pipe()?;
    Ok((Mailbox { letters: receiver, bell: reader }, Sending { letters: sender, bell: writer }))
}

impl<T> Sending<T> {
    pub fn try_clone(&self) -> std::io::Result<Self> {
        Ok(Self { letters: self.letters.clone(), bell: self.bell.try_clone()? })
    }

    /// Whether someone is left to read it.
    pub fn send(&mut self, letter: T) -> bool {
        self.letters.send(letter).is_ok() && self.bell.write_all(&[1]).is_ok()
    }
}

impl<T> Mailbox<T> {
    /// Readable when there are letters.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Call when [`Mailbox::as_fd`] is readable: every byte read has its letter in the channel already.
    pub fn take(&mut self) -> Vec<T> {
        let mut bells = [0; 64];
        let rung = self.bell.read(&mut bells).unwrap_or(0);
        self.letters.try_iter().take(rung).collect()
    }
}

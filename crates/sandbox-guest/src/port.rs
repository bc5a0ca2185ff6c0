use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::thread::sleep;
use std::time::{Duration, Instant};

use futures::{AsyncRead, AsyncWrite};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::{read, write};
use tokio::io::unix::AsyncFd;

use crate::sys;

/// The name QEMU's command line gives to the port.
pub const PORT_NAME: &str = "org.agents-sandbox.link";
const APPEARS_WITHIN: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// The device of the port named [`PORT_NAME`]: waits for it, because the kernel adds ports a moment after
/// their controller.
pub fn find(sysfs: &Path) -> io::Result<PathBuf> {
    let deadline = Instant::now() + APPEARS_WITHIN;
    loop {
        if let Some(name) = look(&sysfs.join("class/virtio-ports")) {
            return Ok(Path::new("/dev").join(name));
        }
        if Instant::now() >= deadline {
            let message = format!("no virtio-serial port is named {PORT_NAME}");
            return Err(io::Error::new(io::ErrorKind::NotFound, message));
        }
        sleep(LOOK_AGAIN);
    }
}

fn look(class: &Path) -> Option<std::ffi::OsString> {
    fs_err::read_dir(class)
        .ok()?
        .flatten()
        .find(|port| {
            fs_err::read_to_string(port.path().join("name")).is_ok_and(|name| name.trim() == PORT_NAME)
        })
        .map(|port| port.file_name())
}

/// The open port. Only one process at a time can have it open.
#[derive(Debug)]
pub struct Port(OwnedFd);

impl Port {
    /// Without waiting for the host. Fails where the port is open already.
    pub fn open(device: &Path) -> io::Result<Self> {
        let mut options = fs_err::OpenOptions::new();
        options.read(true).write(true);
        fs_err::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
        Ok(Self(options.open(device)?.into_file().into()))
    }

    /// Waits until the host has its end open; false when `limit` passes first. The kernel tells by
    /// hanging up the port, which must be asked rather than waited for.
    pub async fn host_connects(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        while !self.host_is_connected() {
            if Instant::now() >= deadline {
                return false;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        true
    }

    /// What has arrived, without waiting; 0 when that is nothing, or the host's end is closed.
    pub fn read_now(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match read(&self.0, buffer) {
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(0),
            other => Ok(other?),
        }
    }

    /// Writes all of it, waiting where the host takes no more; an error when `limit` passes first.
    pub async fn write_all(&self, mut bytes: &[u8], limit: Duration) -> io::Result<()> {
        let deadline = Instant::now() + limit;
        while !bytes.is_empty() {
            match write(&self.0, bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(Errno::EAGAIN | Errno::EINTR) if Instant::now() < deadline => {
                    tokio::time::sleep(LOOK_AGAIN).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn host_is_connected(&self) -> bool {
        let mut fds = [PollFd::new(self.0.as_fd(), PollFlags::POLLOUT)];
        match poll(&mut fds, PollTimeout::ZERO) {
            Ok(_) => !fds[0].revents().is_some_and(|events| events.contains(PollFlags::POLLHUP)),
            Err(_) => false,
        }
    }

    /// The port as the carrier of one link. A new one is needed after every hang-up, because the reactor
    /// never forgets that it saw one.
    pub fn link(&self) -> io::Result<PortLink> {
        Ok(PortLink(sys::watch(self.0.try_clone()?)?))
    }
}

/// The port as the stream that the link runs over.
#[derive(Debug)]
pub struct PortLink(AsyncFd<OwnedFd>);

impl AsyncRead for PortLink {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            let mut ready = ready!(self.0.poll_read_ready(cx))?;
            if let Ok(outcome) = ready.try_io(|port| Ok(read(port.get_ref(), buf)?)) {
                return Poll::Ready(outcome);
            }
        }
    }
}

impl AsyncWrite for PortLink {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            let mut ready = ready!(self.0.poll_write_ready(cx))?;
            if let Ok(outcome) = ready.try_io(|port| Ok(write(port.get_ref(), buf)?)) {
                return Poll::Ready(outcome);
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_found_by_its_name() {
        let sysfs = tempfile::tempdir().unwrap();
        let class = sysfs.path().join("class/virtio-ports");
        for (port, name) in
            [("vport1p0", "org.qemu.guest_agent.0\n"), ("vport2p1", "org.agents-sandbox.link\n")]
        {
            fs_err::create_dir_all(class.join(port)).unwrap();
            fs_err::write(class.join(port).join("name"), name).unwrap();
        }
        assert_eq!(find(sysfs.path()).unwrap(), Path::new("/dev/vport2p1"));
    }
}

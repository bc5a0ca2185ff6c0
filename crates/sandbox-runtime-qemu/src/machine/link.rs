//! The machine process's link to the guest: over one virtio serial port.

use std::os::unix::net::UnixStream as StdUnixStream;

use sandbox_guest_client::{Link, Window};
use tokio::net::UnixStream;

/// Takes over QEMU's end of the port. The link ends, and with it every stream, when QEMU does. Inside a tokio
/// runtime.
pub fn open(socket: StdUnixStream) -> std::io::Result<Link> {
    socket.set_nonblocking(true)?;
    let (link, driven) = Link::new(UnixStream::from_std(socket)?, Window::Growing);
    tokio::spawn(driven);
    Ok(link)
}

//! The engine's wake descriptor, which its interface gives as a bare number.
#![allow(unsafe_code)]

use std::os::fd::BorrowedFd;

use msb_krun::backends::net::NetBackend;

/// Readable when the engine has frames for the guest.
pub(crate) fn wake_fd<'a>(backend: &'a (dyn NetBackend + Send + 'a)) -> BorrowedFd<'a> {
    // SAFETY: the descriptor is one end of a pipe that the backend owns through its shared state, and is open
    // as long as the backend is; the borrow ends with the backend's.
    unsafe { BorrowedFd::borrow_raw(backend.raw_socket_fd()) }
}

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures::{AsyncRead, AsyncWrite};

/// One stream of the link in as many hands as a session needs: reading, writing and looking after it. The
/// lock is held for single polls only, never across an await.
#[derive(Debug, Clone)]
pub struct SessionStream(Arc<Mutex<yamux::Stream>>);

impl SessionStream {
    /// All clones are the same stream.
    pub fn new(stream: yamux::Stream) -> Self {
        Self(Arc::new(Mutex::new(stream)))
    }

    fn lock(&self) -> MutexGuard<'_, yamux::Stream> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the other side has reset the stream: nobody is there to read or write. Reading alone cannot
    /// tell that from the end of the input.
    pub fn is_reset(&self) -> bool {
        self.lock().is_closed()
    }
}

impl AsyncRead for SessionStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.lock()).poll_read(cx, buf)
    }
}

impl AsyncWrite for SessionStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.lock()).poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.lock()).poll_flush(cx)
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.lock()).poll_close(cx)
    }
}

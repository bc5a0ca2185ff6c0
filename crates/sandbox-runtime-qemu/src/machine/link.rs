//! The host's end of the guest link: yamux over one virtio serial port.
//!
//! yamux gives every client its own flow-controlled stream, so a client that does not read holds up
//! nobody else.

use std::future::poll_fn;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio_util::compat::{Compat, FuturesAsyncReadCompatExt, TokioAsyncReadCompatExt};
use yamux::{Config, Connection, Mode};

/// Opens streams; cheap to clone.
#[derive(Debug, Clone)]
pub struct Link {
    requests: mpsc::Sender<oneshot::Sender<yamux::Stream>>,
    open: Arc<Semaphore>,
}

/// Streams at once. yamux ends the whole connection when one is opened beyond its limit, so the limit is
/// kept here, below the guest program's own: a client beyond it waits for another to leave.
const MAX_STREAMS: usize = 768;

fn config() -> Config {
    let mut config = Config::default();
    config.set_max_num_streams(2 * MAX_STREAMS);
    config.set_split_send_size(64 << 10);
    config
}

/// A stream and its place among the [`MAX_STREAMS`].
#[derive(Debug)]
pub struct GuestStream {
    stream: Compat<yamux::Stream>,
    _place: OwnedSemaphorePermit,
}

impl AsyncRead for GuestStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for GuestStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl Link {
    /// Takes over QEMU's end of the port. The task ends, and with it every stream, when QEMU does.
    pub fn new(socket: StdUnixStream) -> std::io::Result<Self> {
        socket.set_nonblocking(true)?;
        let socket = UnixStream::from_std(socket)?.compat();
        let (requests, receiver) = mpsc::channel(64);
        tokio::spawn(drive(Connection::new(socket, config(), Mode::Client), receiver));
        Ok(Self { requests, open: Arc::new(Semaphore::new(MAX_STREAMS)) })
    }

    /// Returns when the link is gone.
    pub async fn ended(&self) {
        self.requests.closed().await;
    }

    /// A new stream, or `None` when the link is gone.
    pub async fn open(&self) -> Option<GuestStream> {
        let place = Arc::clone(&self.open).acquire_owned().await.ok()?;
        let (sender, receiver) = oneshot::channel();
        self.requests.send(sender).await.ok()?;
        Some(GuestStream { stream: receiver.await.ok()?.compat(), _place: place })
    }
}

/// yamux makes progress only while it is polled: inbound frames, outbound frames and new streams all
/// happen here.
async fn drive(
    mut connection: Connection<Compat<UnixStream>>,
    mut requests: mpsc::Receiver<oneshot::Sender<yamux::Stream>>,
) {
    let mut waiting: Option<oneshot::Sender<yamux::Stream>> = None;
    poll_fn(|context| {
        loop {
            if waiting.is_none()
                && let Poll::Ready(Some(request)) = requests.poll_recv(context)
            {
                waiting = Some(request);
            }
            if let Some(request) = waiting.take() {
                match connection.poll_new_outbound(context) {
                    Poll::Ready(Ok(stream)) => {
                        // The asker may be gone; its stream then closes at once.
                        let _ = request.send(stream);
                        continue;
                    }
                    Poll::Ready(Err(error)) => {
                        tracing::info!("the guest link ended: {error}");
                        return Poll::Ready(());
                    }
                    Poll::Pending => waiting = Some(request),
                }
            }
            match connection.poll_next_inbound(context) {
                // The guest program opens no streams; one that appears is dropped.
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(Some(Err(error))) => {
                    tracing::info!("the guest link ended: {error}");
                    return Poll::Ready(());
                }
                Poll::Ready(None) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
    })
    .await;
}

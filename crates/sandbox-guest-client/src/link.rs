//! yamux over whatever carries bytes into the guest: every client gets its own flow-controlled stream, so one
//! that does not read holds up nobody else.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
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

/// How much of a stream that nobody reads may be on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    /// 256 KiB: not every carrier can keep more.
    Fixed,
    /// As much as the way is long and wide.
    Growing,
}

fn config(window: Window) -> Config {
    let mut config = Config::default();
    config.set_max_num_streams(2 * MAX_STREAMS);
    if window == Window::Fixed {
        config.set_max_connection_receive_window(Some(2 * MAX_STREAMS * yamux::DEFAULT_CREDIT as usize));
    }
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
    /// Takes over one end of the carrier. Inside a tokio runtime. The returned future ends, and with it every
    /// stream, when the carrier does; it must be polled for anything to happen.
    pub fn new<C>(carrier: C, window: Window) -> (Self, impl Future<Output = ()> + Send)
    where
        C: AsyncRead + AsyncWrite + Unpin + Send,
    {
        let (requests, receiver) = mpsc::channel(64);
        let driven = drive(Connection::new(carrier.compat(), config(window), Mode::Client), receiver);
        (Self { requests, open: Arc::new(Semaphore::new(MAX_STREAMS)) }, driven)
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
async fn drive<C: AsyncRead + AsyncWrite + Unpin>(
    mut connection: Connection<Compat<C>>,
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

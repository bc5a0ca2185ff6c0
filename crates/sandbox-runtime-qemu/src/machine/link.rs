//! The host's end of the guest link: yamux over one virtio serial port.
//!
//! yamux gives every client its own flow-controlled stream, so a client that does not read holds up
//! nobody else.

use std::future::poll_fn;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::task::Poll;

use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};
use tokio_util::compat::{Compat, FuturesAsyncReadCompatExt, TokioAsyncReadCompatExt};
use yamux::{Config, Connection, Mode};

/// One stream to the guest program.
pub type GuestStream = Compat<yamux::Stream>;

/// Opens streams; cheap to clone.
#[derive(Debug, Clone)]
pub struct Link {
    requests: mpsc::Sender<oneshot::Sender<GuestStream>>,
}

impl Link {
    /// Takes over QEMU's end of the port. The task ends, and with it every stream, when QEMU does.
    pub fn new(socket: StdUnixStream) -> std::io::Result<Self> {
        socket.set_nonblocking(true)?;
        let socket = UnixStream::from_std(socket)?.compat();
        let (requests, receiver) = mpsc::channel(64);
        tokio::spawn(drive(Connection::new(socket, Config::default(), Mode::Client), receiver));
        Ok(Self { requests })
    }

    /// A new stream, or `None` when the link is gone.
    pub async fn open(&self) -> Option<GuestStream> {
        let (sender, receiver) = oneshot::channel();
        self.requests.send(sender).await.ok()?;
        receiver.await.ok()
    }
}

/// yamux makes progress only while it is polled: inbound frames, outbound frames and new streams all
/// happen here.
async fn drive(
    mut connection: Connection<Compat<UnixStream>>,
    mut requests: mpsc::Receiver<oneshot::Sender<GuestStream>>,
) {
    let mut waiting: Option<oneshot::Sender<GuestStream>> = None;
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
                        let _ = request.send(stream.compat());
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

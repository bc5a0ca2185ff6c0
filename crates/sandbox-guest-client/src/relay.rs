use std::io::{Error, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream as StdUnixStream;

use tokio::io::{AsyncWriteExt, BufReader, Interest, copy_buf};
use tokio::net::UnixStream;
use tokio::sync::oneshot;

use crate::link::{GuestStream, Link};

/// How much travels at once between a client and the guest.
const BUFFER: usize = 64 << 10;

/// Opens a stream and hands out a blocking socket whose other end is copied to it until either side ends.
/// `None` when the link is gone. Inside a tokio runtime.
pub async fn open_socket(link: &Link) -> std::io::Result<Option<StdUnixStream>> {
    let Some(stream) = link.open().await else { return Ok(None) };
    let (ours, theirs) = StdUnixStream::pair()?;
    theirs.set_nonblocking(true)?;
    let theirs = UnixStream::from_std(theirs)?;
    tokio::spawn(async move {
        if let Err(error) = relay(theirs, stream).await {
            tracing::debug!("a client's connection ended: {error}");
        }
    });
    Ok(Some(ours))
}

/// Copies both ways. A client that only says that it has no more to send is passed on as that; one that is
/// gone altogether, at once or later, drops the stream, which the guest sees as a reset.
pub async fn relay(mut socket: UnixStream, stream: GuestStream) -> std::io::Result<()> {
    let (mut from_guest, mut to_guest) = tokio::io::split(stream);
    let (from_client, mut to_client) = socket.split();
    let (say, said_all) = oneshot::channel();
    let up = async {
        let mut reader = BufReader::with_capacity(BUFFER, from_client);
        copy_buf(&mut reader, &mut to_guest).await?;
        let client: &UnixStream = reader.get_ref().as_ref();
        if client.ready(Interest::WRITABLE).await?.is_write_closed() {
            return Err(Error::from(ErrorKind::ConnectionReset));
        }
        to_guest.shutdown().await?;
        let _ = say.send(watched(client)?);
        Ok(())
    };
    let down = async {
        let mut reader = BufReader::with_capacity(BUFFER, &mut from_guest);
        copy_buf(&mut reader, &mut to_client).await?;
        to_client.shutdown().await
    };
    let gone = async {
        match said_all.await {
            Ok(client) => gone(&client).await,
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        // First: what has come to its end is no reset.
        biased;
        outcome = async { tokio::try_join!(up, down) } => outcome.map(drop),
        outcome = gone => outcome.and(Err(ErrorKind::ConnectionReset.into())),
    }
}

/// Returns when the client on the other end of `socket` is gone altogether.
pub async fn left(socket: &UnixStream) -> std::io::Result<()> {
    gone(&watched(socket)?).await
}

/// The same socket, with a readiness of its own.
fn watched(socket: &UnixStream) -> std::io::Result<UnixStream> {
    UnixStream::from_std(socket.as_fd().try_clone_to_owned()?.into())
}

/// Returns when nobody has the other end of `socket`, which is written to by another.
async fn gone(socket: &UnixStream) -> std::io::Result<()> {
    while !socket.ready(Interest::WRITABLE).await?.is_write_closed() {
        // It is told again when something changes.
        let _ = socket.try_io(Interest::WRITABLE, || Err::<(), _>(ErrorKind::WouldBlock.into()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use tokio::io::AsyncReadExt;
    use tokio::sync::mpsc;
    use tokio::time::timeout;
    use tokio_util::compat::{FuturesAsyncReadCompatExt, TokioAsyncReadCompatExt};
    use yamux::{Config, Connection, Mode};

    use super::*;
    use crate::link::Window;

    #[tokio::test]
    async fn a_client_that_goes_after_its_last_word_takes_its_stream_along() {
        let (ours, theirs) = tokio::io::duplex(BUFFER);
        let (link, driven) = Link::new(ours, Window::Fixed);
        tokio::spawn(driven);
        let mut connection = Connection::new(theirs.compat(), Config::default(), Mode::Server);
        let (arrived, mut streams) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(Ok(stream)) = poll_fn(|context| connection.poll_next_inbound(context)).await {
                arrived.send(stream).unwrap();
            }
        });
        let (mut client, socket) = UnixStream::pair().unwrap();
        let relayed = tokio::spawn(relay(socket, link.open().await.unwrap()));
        client.write_all(b"all").await.unwrap();
        client.shutdown().await.unwrap();
        let mut guest = streams.recv().await.unwrap().compat();
        let mut heard = Vec::new();
        guest.read_to_end(&mut heard).await.unwrap();
        assert_eq!(heard, b"all");
        // The other way is open, more than once.
        for _ in 0..2 {
            guest.write_all(b"answer").await.unwrap();
            guest.flush().await.unwrap();
            let mut answer = [0; 6];
            client.read_exact(&mut answer).await.unwrap();
            assert_eq!(&answer, b"answer");
        }
        assert!(!relayed.is_finished());
        drop(client);
        let ended = timeout(Duration::from_secs(10), relayed).await.expect("its end").unwrap();
        assert_eq!(ended.unwrap_err().kind(), ErrorKind::ConnectionReset);
    }
}

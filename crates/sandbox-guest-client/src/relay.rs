use std::io::{Error, ErrorKind};
use std::os::unix::net::UnixStream as StdUnixStream;

use tokio::io::{AsyncWriteExt, BufReader, Interest, copy_buf};
use tokio::net::UnixStream;

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
/// gone altogether drops the stream, which the guest sees as a reset.
pub async fn relay(mut socket: UnixStream, stream: GuestStream) -> std::io::Result<()> {
    let (mut from_guest, mut to_guest) = tokio::io::split(stream);
    let (from_client, mut to_client) = socket.split();
    let up = async {
        let mut reader = BufReader::with_capacity(BUFFER, from_client);
        copy_buf(&mut reader, &mut to_guest).await?;
        if reader.get_ref().as_ref().ready(Interest::WRITABLE).await?.is_write_closed() {
            return Err(Error::from(ErrorKind::ConnectionReset));
        }
        to_guest.shutdown().await
    };
    let down = async {
        let mut reader = BufReader::with_capacity(BUFFER, &mut from_guest);
        copy_buf(&mut reader, &mut to_client).await?;
        to_client.shutdown().await
    };
    tokio::try_join!(up, down).map(drop)
}

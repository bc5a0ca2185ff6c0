use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use futures::{AsyncReadExt, AsyncWriteExt};
use sandbox_wire::{FrameError, GuestReply};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::framed::{FrameReader, send};
use crate::stream::SessionStream;

const COPY_SIZE: usize = 64 * 1024;

/// Connects to a port on the guest's loopback and becomes that connection, half-closes included.
pub async fn answer(port: u16, frames: FrameReader) -> Result<(), FrameError> {
    let (early, mut stream) = frames.into_raw();
    let connected = match connect(port).await {
        Ok(connected) => connected,
        Err(error) => {
            send(&mut stream, &GuestReply::Failed(reason(port, &error))).await?;
            return Ok(stream.close().await?);
        }
    };
    send(&mut stream, &GuestReply::Ok).await?;
    connected.set_nodelay(true)?;
    let (from_guest, to_guest) = connected.into_split();
    Ok(relay(from_guest, to_guest, stream, early).await?)
}

async fn connect(port: u16) -> io::Result<TcpStream> {
    match TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await {
        Ok(connected) => Ok(connected),
        // Some servers listen on ::1 alone. The first error is the one worth telling.
        Err(error) => TcpStream::connect((Ipv6Addr::LOCALHOST, port)).await.map_err(|_| error),
    }
}

fn reason(port: u16, error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::ConnectionRefused {
        format!("nothing listens on port {port}")
    } else {
        format!("connecting to port {port}: {error}")
    }
}

/// Copies both ways between a connection in the guest and the host's stream; `early` came before.
pub async fn relay(
    mut from_guest: impl AsyncRead + Unpin,
    mut to_guest: impl AsyncWrite + Unpin,
    stream: SessionStream,
    early: Vec<u8>,
) -> io::Result<()> {
    let (mut from_host, mut to_host) = (stream.clone(), stream);
    let up = async {
        to_guest.write_all(&early).await?;
        let mut buffer = vec![0; COPY_SIZE];
        loop {
            let read = from_host.read(&mut buffer).await?;
            if read == 0 {
                // A reset, unlike an end, means that nobody waits for the answer either.
                return if from_host.is_reset() {
                    Err(io::ErrorKind::ConnectionReset.into())
                } else {
                    to_guest.shutdown().await
                };
            }
            to_guest.write_all(&buffer[..read]).await?;
        }
    };
    let down = async {
        let mut buffer = vec![0; COPY_SIZE];
        loop {
            let read = from_guest.read(&mut buffer).await?;
            if read == 0 {
                return to_host.close().await;
            }
            to_host.write_all(&buffer[..read]).await?;
        }
    };
    tokio::try_join!(up, down).map(|_| ())
}

//! The wire's frames on asynchronous streams.

use sandbox_wire::{FrameError, MAX_FRAME};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

async fn body(stream: &mut (impl AsyncRead + Unpin)) -> Result<Vec<u8>, FrameError> {
    let length = stream.read_u32_le().await? as usize;
    if length > MAX_FRAME {
        return Err(FrameError::TooLarge(length));
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok(body)
}

/// As [`sandbox_wire::read_message`], but that an end between two frames is an error of the stream.
pub async fn read_message<T: DeserializeOwned>(
    stream: &mut (impl AsyncRead + Unpin),
) -> Result<T, FrameError> {
    sandbox_wire::decode(&body(stream).await?)
}

/// As [`sandbox_wire::write_message`].
pub async fn write_message<T: Serialize>(
    stream: &mut (impl AsyncWrite + Unpin),
    message: &T,
) -> Result<(), FrameError> {
    stream.write_all(&sandbox_wire::encode(message)?).await?;
    Ok(stream.flush().await?)
}

/// As [`sandbox_wire::read_json`], likewise.
pub async fn read_json<T: DeserializeOwned>(stream: &mut (impl AsyncRead + Unpin)) -> Result<T, FrameError> {
    serde_json::from_slice(&body(stream).await?).map_err(|error| FrameError::Malformed(error.to_string()))
}

/// As [`sandbox_wire::write_json`].
pub async fn write_json<T: Serialize>(
    stream: &mut (impl AsyncWrite + Unpin),
    message: &T,
) -> Result<(), FrameError> {
    let mut frame = Vec::new();
    sandbox_wire::write_json(&mut frame, message)?;
    stream.write_all(&frame).await?;
    Ok(stream.flush().await?)
}

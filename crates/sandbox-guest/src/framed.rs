use std::time::Duration;

use futures::{AsyncReadExt, AsyncWriteExt};
use sandbox_wire::{FrameError, MAX_FRAME, decode, encode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::stream::SessionStream;

const READ_SIZE: usize = 64 * 1024;
const LENGTH_SIZE: usize = 4;
/// What is kept for a reader who is not there yet.
const READ_AHEAD: usize = 1024 * 1024;
/// How often to look whether somebody is there of whom nothing more is read.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// Reads frames from a stream. What has been read of a frame is kept here, so a caller may drop the future
/// of [`FrameReader::next`] and ask again.
#[derive(Debug)]
pub struct FrameReader {
    stream: SessionStream,
    buffer: Vec<u8>,
    /// Bytes of `buffer` that belong to frames already given out.
    taken: usize,
}

impl FrameReader {
    /// At the beginning of a frame.
    pub fn new(stream: SessionStream) -> Self {
        Self { stream, buffer: Vec::new(), taken: 0 }
    }

    /// The next message; `None` when the stream ended between two frames.
    pub async fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, FrameError> {
        loop {
            if let Some(body) = self.whole_frame()? {
                let message = decode(&self.buffer[body.clone()]);
                self.taken = body.end;
                return message.map(Some);
            }
            if self.more().await? == 0 {
                return if self.buffer.is_empty() {
                    Ok(None)
                } else {
                    Err(FrameError::Malformed("the stream ended inside a frame".into()))
                };
            }
        }
    }

    /// Returns when the other side is gone. What it says before that is kept for [`FrameReader::next`]; where that is
    /// much, nothing more is read, and only a reset tells. It may be dropped and asked again as well.
    pub async fn gone(&mut self) {
        while self.buffer.len() < READ_AHEAD {
            if !matches!(self.more().await, Ok(1..)) {
                return;
            }
        }
        while !self.stream.is_reset() {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Reads a piece behind what is there and not given out yet; 0 at the end of the stream.
    async fn more(&mut self) -> Result<usize, FrameError> {
        self.buffer.drain(..self.taken);
        self.taken = 0;
        let filled = self.buffer.len();
        self.buffer.resize(filled + READ_SIZE, 0);
        Truncate { buffer: &mut self.buffer, to: filled }.fill(&mut self.stream).await
    }

    fn whole_frame(&self) -> Result<Option<std::ops::Range<usize>>, FrameError> {
        let rest = &self.buffer[self.taken..];
        let Some(length) = rest.first_chunk::<LENGTH_SIZE>() else { return Ok(None) };
        let length = u32::from_le_bytes(*length) as usize;
        if length > MAX_FRAME {
            return Err(FrameError::TooLarge(length));
        }
        let start = self.taken + LENGTH_SIZE;
        Ok((rest.len() >= LENGTH_SIZE + length).then_some(start..start + length))
    }

    /// The bytes that were read beyond the last frame, and the stream: for what goes on as raw bytes.
    pub fn into_raw(mut self) -> (Vec<u8>, SessionStream) {
        self.buffer.drain(..self.taken);
        (self.buffer, self.stream)
    }

    /// The stream itself, to write to. Whoever reads from it takes bytes of a frame away.
    pub fn stream(&self) -> &SessionStream {
        &self.stream
    }
}

/// Takes the room that was made for a read back, also when the read is dropped half-way.
struct Truncate<'a> {
    buffer: &'a mut Vec<u8>,
    to: usize,
}

impl Truncate<'_> {
    async fn fill(mut self, stream: &mut SessionStream) -> Result<usize, FrameError> {
        let read = stream.read(&mut self.buffer[self.to..]).await?;
        self.to += read;
        Ok(read)
    }
}

impl Drop for Truncate<'_> {
    fn drop(&mut self) {
        self.buffer.truncate(self.to);
    }
}

/// Sends one message, waiting for the other side's window.
pub async fn send<T: Serialize>(stream: &mut SessionStream, message: &T) -> Result<(), FrameError> {
    Ok(stream.write_all(&encode(message)?).await?)
}

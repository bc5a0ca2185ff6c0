use std::io::{ErrorKind, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The largest body of a frame, in bytes. Exec output travels in far smaller pieces; a boot configuration
/// with a large environment fits many times over.
pub const MAX_FRAME: usize = 1 << 20;

/// Why a frame cannot be read or written. [`FrameError::Closed`], an end between two frames, alone is no
/// fault.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    #[error("the other side closed the connection")]
    Closed,
    #[error("a frame of {0} bytes is larger than {MAX_FRAME}")]
    TooLarge(usize),
    #[error("a frame that is not a message: {0}")]
    Malformed(String),
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// One whole frame (length and postcard body), ready to be written.
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, FrameError> {
    let body = postcard::to_extend(message, vec![0; 4]).map_err(|e| FrameError::Malformed(e.to_string()))?;
    finish(body)
}

/// The message in a postcard body (without the length).
pub fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, FrameError> {
    postcard::from_bytes(body).map_err(|e| FrameError::Malformed(e.to_string()))
}

fn finish(mut frame: Vec<u8>) -> Result<Vec<u8>, FrameError> {
    let length = frame.len() - 4;
    if length > MAX_FRAME {
        return Err(FrameError::TooLarge(length));
    }
    frame[..4].copy_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
    Ok(frame)
}

fn read_body(from: &mut impl Read) -> Result<Vec<u8>, FrameError> {
    let mut length = [0; 4];
    // An end before the first byte is a normal close; an end inside a frame is not.
    let begun = loop {
        match from.read(&mut length[..1]) {
            // Where a reader has a deadline, the kernel does not go on by itself.
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            other => break other?,
        }
    };
    if begun == 0 {
        return Err(FrameError::Closed);
    }
    from.read_exact(&mut length[1..]).map_err(truncated)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_FRAME {
        return Err(FrameError::TooLarge(length));
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body).map_err(truncated)?;
    Ok(body)
}

fn truncated(error: std::io::Error) -> FrameError {
    if error.kind() == ErrorKind::UnexpectedEof {
        FrameError::Malformed("the connection ended inside a frame".into())
    } else {
        error.into()
    }
}

/// Reads one postcard message; [`FrameError::Closed`] when the other side is done.
pub fn read_message<T: DeserializeOwned>(from: &mut impl Read) -> Result<T, FrameError> {
    decode(&read_body(from)?)
}

/// Writes one postcard message in a single `write`.
pub fn write_message<T: Serialize>(to: &mut impl Write, message: &T) -> Result<(), FrameError> {
    to.write_all(&encode(message)?)?;
    Ok(to.flush()?)
}

/// Reads one JSON message; [`FrameError::Closed`] when the other side is done.
pub fn read_json<T: DeserializeOwned>(from: &mut impl Read) -> Result<T, FrameError> {
    serde_json::from_slice(&read_body(from)?).map_err(|e| FrameError::Malformed(e.to_string()))
}

/// Writes one JSON message in a single `write`.
pub fn write_json<T: Serialize>(to: &mut impl Write, message: &T) -> Result<(), FrameError> {
    let mut frame = vec![0; 4];
    serde_json::to_writer(&mut frame, message).map_err(|e| FrameError::Malformed(e.to_string()))?;
    to.write_all(&finish(frame)?)?;
    Ok(to.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_comes_back() {
        let mut wire = Vec::new();
        write_message(&mut wire, &("hello".to_string(), 7_u32)).unwrap();
        write_json(&mut wire, &vec![1, 2, 3]).unwrap();
        let mut from = wire.as_slice();
        assert_eq!(read_message::<(String, u32)>(&mut from).unwrap(), ("hello".into(), 7));
        assert_eq!(read_json::<Vec<u8>>(&mut from).unwrap(), [1, 2, 3]);
        assert!(matches!(read_json::<u8>(&mut from), Err(FrameError::Closed)));
    }

    #[test]
    fn an_end_inside_a_frame_is_not_a_close() {
        let whole = encode(&"hello").unwrap();
        for cut in 1..whole.len() {
            let outcome = read_message::<String>(&mut &whole[..cut]);
            assert!(matches!(outcome, Err(FrameError::Malformed(_))), "{cut}: {outcome:?}");
        }
    }

    /// By a signal, for example that a child has ended.
    #[test]
    fn a_reader_that_is_interrupted_goes_on() {
        struct Interrupted<R>(R, bool);
        impl<R: Read> Read for Interrupted<R> {
            fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
                self.1 = !self.1;
                if self.1 { Err(ErrorKind::Interrupted.into()) } else { self.0.read(into) }
            }
        }
        let frame = encode(&"hello").unwrap();
        let mut from = Interrupted(frame.as_slice(), false);
        assert_eq!(read_message::<String>(&mut from).unwrap(), "hello");
        assert!(matches!(read_message::<String>(&mut from), Err(FrameError::Closed)));
    }

    #[test]
    fn a_length_beyond_the_limit_is_refused_before_memory_is_taken() {
        let outcome = read_message::<String>(&mut &[0xff, 0xff, 0xff, 0xff, 0][..]);
        assert!(matches!(outcome, Err(FrameError::TooLarge(_))));
    }
}

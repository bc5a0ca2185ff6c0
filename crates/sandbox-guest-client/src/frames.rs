use std::io::{ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use sandbox_model::SandboxName;
use sandbox_runtime::RuntimeError;
use sandbox_wire::FrameError;
use serde::de::DeserializeOwned;

/// What a broken frame means to whoever uses the sandbox.
pub fn lost(name: &SandboxName, error: FrameError) -> RuntimeError {
    match error {
        FrameError::Closed | FrameError::Malformed(_) => RuntimeError::Lost(name.clone()),
        FrameError::Io(error) => error.into(),
        other @ FrameError::TooLarge(_) => RuntimeError::other(other.to_string()),
    }
}

/// The guest's next message. One that ends early, or is none, means that the sandbox is lost.
pub fn read<T: DeserializeOwned>(name: &SandboxName, from: &mut impl Read) -> Result<T, RuntimeError> {
    sandbox_wire::read_message(from).map_err(|error| lost(name, error))
}

/// Reads until a point in time, however small the pieces are in which a guest answers.
pub struct Until<'a> {
    pub socket: &'a UnixStream,
    pub deadline: Instant,
}

impl Read for Until<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        self.socket.set_read_timeout(Some(left))?;
        self.socket.read(into).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => ErrorKind::TimedOut.into(),
            _ => error,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_answer_in_small_pieces_takes_no_longer() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let name: SandboxName = "box".parse().unwrap();
        let until =
            |millis| Until { socket: &ours, deadline: Instant::now() + Duration::from_millis(millis) };
        sandbox_wire::write_message(&mut theirs, &7u32).unwrap();
        assert_eq!(read::<u32>(&name, &mut until(60_000)).unwrap(), 7, "the door");
        // The length of a frame that never becomes whole.
        theirs.write_all(&100_000u32.to_le_bytes()).unwrap();
        let writer = std::thread::spawn(move || {
            while theirs.write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        let ended = read::<u32>(&name, &mut until(200));
        let timed_out = |error: &std::io::Error| error.kind() == ErrorKind::TimedOut;
        assert!(matches!(&ended, Err(RuntimeError::Io(error)) if timed_out(error)), "{ended:?}");
        drop(ours);
        writer.join().unwrap();
    }
}

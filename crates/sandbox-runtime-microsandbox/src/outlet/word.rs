//! What a running outlet is told over its socket, by whoever comes later than its start.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use sandbox_model::SecretValues;
use sandbox_runtime::RuntimeError;
use sandbox_state::{StateError, connect_socket};
use serde::{Deserialize, Serialize};

use crate::error::from_state;

/// A word comes whole, and is answered, in this time.
const WITHIN: Duration = Duration::from_secs(10);
/// A listener without descriptors gets some when connections end.
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Word {
    /// Other values of secrets, for connections that begin from now on.
    Values(SecretValues),
    /// Another outlet is to take this one's place.
    End,
}

/// Gives an outlet other values; whether there is one.
pub fn change_values(socket: &Path, values: &SecretValues) -> Result<bool, RuntimeError> {
    let Some(stream) = tell(socket, &Word::Values(values.clone()))? else { return Ok(false) };
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line)?;
    // One that ended meanwhile has not used them.
    Ok(!line.is_empty())
}

/// Ends an outlet, if there is one.
pub fn end(socket: &Path) -> Result<(), RuntimeError> {
    tell(socket, &Word::End).map(drop)
}

fn tell(socket: &Path, word: &Word) -> Result<Option<UnixStream>, RuntimeError> {
    let gone = |kind| matches!(kind, ErrorKind::NotFound | ErrorKind::ConnectionRefused);
    let mut stream = match connect_socket(socket) {
        Ok(stream) => stream,
        Err(StateError::Io(error)) if gone(error.kind()) => return Ok(None),
        Err(error) => return Err(from_state(error)),
    };
    stream.set_read_timeout(Some(WITHIN))?;
    stream.set_write_timeout(Some(WITHIN))?;
    let text = zeroize::Zeroizing::new(serde_json::to_vec(word).map_err(std::io::Error::from)?);
    stream.write_all(&text)?;
    Ok(Some(stream))
}

/// Who listens, and the values that come, one after the other.
pub fn listen(listener: UnixListener) -> (Listening, Values) {
    let (sender, receiver) = channel();
    (Listening { listener, sender }, Values { receiver, unanswered: None })
}

/// Somebody has to run it, whether anybody uses the values or not.
pub struct Listening {
    listener: UnixListener,
    sender: Sender<(SecretValues, UnixStream)>,
}

impl Listening {
    /// For as long as this process lives; one that is told to end does so here.
    pub fn run(self) -> ! {
        loop {
            let Ok((stream, _)) = self.listener.accept() else {
                std::thread::sleep(PAUSE);
                continue;
            };
            match heard(&stream) {
                // Where nobody uses values, whoever brings some sees that at the end of the stream.
                Some(Word::Values(values)) => drop(self.sender.send((values, stream))),
                Some(Word::End) => std::process::exit(0),
                None => {}
            }
        }
    }
}

/// Whoever brought some is answered once the next ones are asked for: by then they count.
pub struct Values {
    receiver: Receiver<(SecretValues, UnixStream)>,
    unanswered: Option<UnixStream>,
}

impl Iterator for Values {
    type Item = SecretValues;

    fn next(&mut self) -> Option<SecretValues> {
        if let Some(mut stream) = self.unanswered.take() {
            // Whoever is gone needs no answer.
            let _ = stream.write_all(b"{}\n");
        }
        let (values, stream) = self.receiver.recv().ok()?;
        self.unanswered = Some(stream);
        Some(values)
    }
}

fn heard(stream: &UnixStream) -> Option<Word> {
    stream.set_read_timeout(Some(WITHIN)).ok()?;
    Word::deserialize(&mut serde_json::Deserializer::from_reader(BufReader::new(stream))).ok()
}

#[cfg(test)]
mod tests {
    use sandbox_model::SecretValue;

    use super::*;

    #[test]
    fn whoever_brings_values_waits_until_they_count() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("outlet.sock");
        let values = SecretValues::from([("TOKEN".into(), SecretValue::new("another".into()))]);
        assert!(!change_values(&socket, &values).unwrap(), "nobody listens");
        let (listening, mut coming) = listen(sandbox_state::bind_socket(&socket).unwrap());
        std::thread::spawn(move || listening.run());
        // What is no word, and whoever says none, are no reason to end.
        drop(connect_socket(&socket).unwrap());
        connect_socket(&socket).unwrap().write_all(b"what? ").unwrap();
        let (brought, answered) = channel();
        let place = socket.clone();
        let bringing = values.clone();
        std::thread::spawn(move || brought.send(change_values(&place, &bringing).unwrap()));
        assert_eq!(coming.next(), Some(values.clone()));
        assert!(answered.try_recv().is_err(), "before anybody has used them");
        let using = std::thread::spawn(move || coming.next());
        assert!(answered.recv_timeout(WITHIN).unwrap());
        // Whoever takes the next ends before they count, and then nobody takes any.
        assert!(!change_values(&socket, &values).unwrap());
        assert_eq!(using.join().unwrap(), Some(values.clone()));
        assert!(!change_values(&socket, &values).unwrap());
    }
}

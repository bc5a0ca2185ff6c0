use std::io::{PipeReader, PipeWriter, pipe};
use std::sync::mpsc::Sender;
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, read};
use sandbox_runtime::ExecInput;

use super::attach::{Ended, Streams};

/// The user's input on its way to the command. Dropping it ends the reading, so that what is typed later
/// goes to whoever comes next.
#[derive(Debug)]
pub struct Stdin {
    _stop: PipeWriter,
}

/// Reads stdin in a thread. The end of a pipe or a file closes the command's input; the end of a terminal
/// means that the terminal is gone.
pub fn feed(input: Box<dyn ExecInput>, streams: Streams, events: Sender<Ended>) -> std::io::Result<Stdin> {
    let (stopped, stop) = pipe()?;
    thread::Builder::new().name("stdin".into()).spawn(move || {
        let _ = match run(input, &stopped, streams.tty && streams.detach) {
            Source::Ended if streams.tty => events.send(Ended::Signal(signal_hook::consts::SIGHUP)),
            Source::Detached => events.send(Ended::Detached),
            Source::Ended | Source::Left => Ok(()),
        };
    })?;
    Ok(Stdin { _stop: stop })
}

#[derive(PartialEq, Eq)]
enum Source {
    Ended,
    /// We were told to stop, or the command takes no more.
    Left,
    Detached,
}

/// Ctrl-], as a terminal sends it by itself, and where a program has switched it to one of the newer
/// encodings of keys.
const DETACH: [&[u8]; 4] = [b"\x1d", b"\x1b[93;5u", b"\x1b[93;5:1u", b"\x1b[27;5;93~"];

/// A key that is pressed comes alone; among other bytes it is part of a text.
fn is_detach_key(bytes: &[u8]) -> bool {
    DETACH.contains(&bytes)
}

fn run(mut input: Box<dyn ExecInput>, stopped: &PipeReader, detach: bool) -> Source {
    let stdin = std::io::stdin();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let mut ready = [PollFd::new(&stdin, PollFlags::IN), PollFd::new(stopped, PollFlags::IN)];
        match poll(&mut ready, None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(_) => return Source::Left,
        }
        if !ready[1].revents().is_empty() {
            return Source::Left;
        }
        if ready[0].revents().is_empty() {
            continue;
        }
        match read(&stdin, &mut buffer) {
            Ok(0) | Err(Errno::IO | Errno::BADF) => {
                let _ = input.close();
                return Source::Ended;
            }
            Ok(count) if detach && is_detach_key(&buffer[..count]) => return Source::Detached,
            Ok(count) => {
                if input.write(&buffer[..count]).is_err() {
                    return Source::Left;
                }
            }
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => {
                let _ = input.close();
                return Source::Ended;
            }
        }
    }
}

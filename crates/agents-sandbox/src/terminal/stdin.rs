use std::io::{PipeReader, PipeWriter, pipe};
use std::os::fd::AsFd;
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
/// means that the terminal is gone, which the command is not to take for a Ctrl-D of its user.
pub fn feed(input: Box<dyn ExecInput>, streams: Streams, events: Sender<Ended>) -> std::io::Result<Stdin> {
    let (stopped, stop) = pipe()?;
    thread::Builder::new().name("stdin".into()).spawn(move || {
        let _ = match run(std::io::stdin(), input, &stopped, streams) {
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

fn run(stdin: impl AsFd, mut input: Box<dyn ExecInput>, stopped: &PipeReader, streams: Streams) -> Source {
    let detach = streams.tty && streams.detach;
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
            Err(Errno::INTR | Errno::AGAIN) => {}
            Ok(0) | Err(_) => {
                if !streams.tty {
                    let _ = input.close();
                }
                return Source::Ended;
            }
            Ok(count) if detach && is_detach_key(&buffer[..count]) => return Source::Detached,
            Ok(count) => {
                if input.write(&buffer[..count]).is_err() {
                    return Source::Left;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::sync::{Arc, Mutex};

    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use sandbox_model::TermSize;

    use super::*;

    /// What came to the command, and whether its input was closed.
    #[derive(Debug, Clone, Default)]
    struct Heard(Arc<Mutex<(Vec<u8>, bool)>>);

    impl ExecInput for Heard {
        fn write(&mut self, bytes: &[u8]) -> sandbox_runtime::Result<()> {
            self.0.lock().unwrap().0.extend(bytes);
            Ok(())
        }
        fn close(&mut self) -> sandbox_runtime::Result<()> {
            self.0.lock().unwrap().1 = true;
            Ok(())
        }
        fn resize(&mut self, _: TermSize) -> sandbox_runtime::Result<()> {
            Ok(())
        }
        fn signal(&mut self, _: i32) -> sandbox_runtime::Result<()> {
            Ok(())
        }
        fn try_clone(&self) -> sandbox_runtime::Result<Box<dyn ExecInput>> {
            Ok(Box::new(self.clone()))
        }
    }

    fn ended(stdin: impl AsFd, tty: bool) -> (Vec<u8>, bool) {
        let heard = Heard::default();
        let (stopped, _stop) = pipe().unwrap();
        let streams = Streams { tty, stdin: true, detach: true };
        assert!(run(stdin, Box::new(heard.clone()), &stopped, streams) == Source::Ended);
        let heard = heard.0.lock().unwrap();
        heard.clone()
    }

    #[test]
    fn a_window_that_closes_is_no_end_of_input() {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let name = ptsname(&terminal, Vec::new()).unwrap();
        let ours = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        rustix::io::write(&terminal, b"typed\n").unwrap();
        let reader = thread::spawn(move || ended(ours, true));
        thread::sleep(std::time::Duration::from_millis(50));
        drop(terminal);
        assert_eq!(reader.join().unwrap(), (b"typed\n".to_vec(), false));
    }

    #[test]
    fn the_end_of_a_pipe_is_the_end_of_input() {
        let (ours, mut theirs) = pipe().unwrap();
        std::io::Write::write_all(&mut theirs, b"piped").unwrap();
        drop(theirs);
        assert_eq!(ended(ours, false), (b"piped".to_vec(), true));
    }
}

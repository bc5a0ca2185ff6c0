use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rustix::io::Errno;
use sandbox_runtime::{ExecEvent, ExecOutput, Result};

use super::attach::Ended;
use super::modes::ScreenModes;
use super::write::write_all;

/// Copies the command's output to ours in a thread, byte for byte, until the command ends.
pub fn pump(
    output: Box<dyn ExecOutput>,
    screen: Arc<Mutex<ScreenModes>>,
    events: Sender<Ended>,
) -> std::io::Result<()> {
    thread::Builder::new().name("output".into()).spawn(move || {
        let last = Last(events);
        let end = match run(output, &screen) {
            Ok(end) => end,
            Err(error) => Ended::Lost(error),
        };
        let _ = last.0.send(end);
    })?;
    Ok(())
}

/// Says that nothing more comes, also when the thread dies.
struct Last(Sender<Ended>);

impl Drop for Last {
    fn drop(&mut self) {
        if thread::panicking() {
            let _ = self.0.send(Ended::ReaderGone);
        }
    }
}

fn run(mut output: Box<dyn ExecOutput>, screen: &Mutex<ScreenModes>) -> Result<Ended> {
    loop {
        let written = match output.next()? {
            ExecEvent::Exited(status) => return Ok(Ended::Exited(status)),
            ExecEvent::Stdout(bytes) => {
                // Held while writing: whoever resets the terminal comes after these bytes.
                let mut screen = screen.lock().unwrap_or_else(PoisonError::into_inner);
                screen.watch(&bytes);
                write_all(std::io::stdout(), &bytes)
            }
            ExecEvent::Stderr(bytes) => write_all(std::io::stderr(), &bytes),
        };
        match written {
            Ok(()) => {}
            // The terminal closed, or the next program of a pipeline has read enough.
            Err(Errno::PIPE | Errno::IO | Errno::BADF) => return Ok(Ended::ReaderGone),
            Err(error) => return Err(std::io::Error::from(error).into()),
        }
    }
}

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use sandbox_wire::ExecInput;
use tokio::io::AsyncWriteExt;
use tokio::process::ChildStdin;

use super::spawn::Process;
use super::terminal::Terminal;
use crate::framed::FrameReader;

/// Input that the command has not taken yet. Beyond it nothing more is read from the client, signals
/// included; up to it they overtake.
const READ_AHEAD: usize = 1024 * 1024;
/// How often to look whether the client of a command that takes no input is still there.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

#[derive(Debug)]
enum Sink {
    Pipe(ChildStdin),
    Terminal(Arc<Terminal>),
    Closed,
}

/// What a client tells its command.
pub struct Input {
    sink: Sink,
    terminal: Option<Arc<Terminal>>,
    group: Pid,
    waiting: VecDeque<u8>,
    ended: bool,
    after_newline: bool,
    /// Sees each frame first, and gives back what is left to do.
    filter: Option<Filter>,
}

type Filter = Box<dyn FnMut(ExecInput) -> Option<ExecInput> + Send>;

impl Input {
    /// For the only client of a command; takes the command's stdin out of `process`.
    pub fn new(process: &mut Process) -> Self {
        let sink = match (process.stdin.take(), &process.terminal) {
            (Some(stdin), _) => Sink::Pipe(stdin),
            (None, Some(terminal)) => Sink::Terminal(Arc::clone(terminal)),
            (None, None) => Sink::Closed,
        };
        Self {
            sink,
            terminal: process.terminal.clone(),
            group: process.group,
            waiting: VecDeque::new(),
            ended: false,
            after_newline: true,
            filter: None,
        }
    }

    /// One of several clients of a terminal, each with its own; `group` leads the session on it. `filter`
    /// sees each frame first, and gives back what is left to do.
    pub fn shared(
        terminal: Arc<Terminal>,
        group: Pid,
        filter: impl FnMut(ExecInput) -> Option<ExecInput> + Send + 'static,
    ) -> Self {
        Self {
            sink: Sink::Terminal(Arc::clone(&terminal)),
            terminal: Some(terminal),
            group,
            waiting: VecDeque::new(),
            ended: false,
            after_newline: true,
            filter: Some(Box::new(filter)),
        }
    }

    /// Returns when the client is gone: its half of the stream has ended, was reset, or makes no sense.
    pub async fn run(mut self, mut frames: FrameReader) {
        loop {
            let full = self.waiting.len() >= READ_AHEAD;
            let stream = frames.stream().clone();
            tokio::select! {
                frame = frames.next::<ExecInput>(), if !full => match frame {
                    Ok(Some(frame)) => self.take(frame),
                    Ok(None) | Err(_) => return,
                },
                written = self.sink.write(self.waiting.as_slices().0), if !self.waiting.is_empty() => {
                    self.written(&written);
                }
                () = tokio::time::sleep(LOOK_AGAIN), if full => if stream.is_reset() {
                    return;
                },
            }
        }
    }

    fn take(&mut self, frame: ExecInput) {
        let frame = match &mut self.filter {
            Some(filter) => filter(frame),
            None => Some(frame),
        };
        let Some(frame) = frame else { return };
        match frame {
            ExecInput::Stdin(bytes) => self.queue(&bytes),
            ExecInput::Eof => self.end(),
            ExecInput::Resize(size) => {
                if let Some(terminal) = &self.terminal {
                    // A terminal without programs has no size to speak of.
                    let _ = terminal.resize(size);
                }
            }
            ExecInput::Signal(number) => self.signal(number),
        }
    }

    fn queue(&mut self, bytes: &[u8]) {
        if self.ended || matches!(self.sink, Sink::Closed) {
            return;
        }
        if let Some(last) = bytes.last() {
            self.after_newline = *last == b'\n';
            self.waiting.extend(bytes);
        }
    }

    fn end(&mut self) {
        if self.ended {
            return;
        }
        if let Some(terminal) = &self.terminal {
            // A terminal's end of input is a key like any other: more may follow.
            self.waiting.extend(terminal.end_of_input(self.after_newline));
            self.after_newline = true;
        } else {
            self.ended = true;
            if self.waiting.is_empty() {
                self.sink = Sink::Closed;
            }
        }
    }

    fn written(&mut self, written: &io::Result<usize>) {
        if let Ok(length) = written {
            self.waiting.drain(..*length);
        } else {
            // Nobody reads any more. That is the command's choice, and no reason to end it.
            self.waiting.clear();
            self.sink = Sink::Closed;
        }
        if self.ended && self.waiting.is_empty() {
            self.sink = Sink::Closed;
        }
    }

    fn signal(&self, number: i32) {
        let Ok(signal) = Signal::try_from(number) else { return };
        // What has a key goes where the key would send it.
        let by_key = matches!(signal, Signal::SIGINT | Signal::SIGQUIT | Signal::SIGTSTP);
        let foreground = self.terminal.as_ref().filter(|_| by_key).and_then(|terminal| terminal.foreground());
        // The group may be gone already.
        let _ = killpg(foreground.unwrap_or(self.group), signal);
    }
}

impl Sink {
    async fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Pipe(stdin) => stdin.write(bytes).await,
            Self::Terminal(terminal) => terminal.type_in(bytes).await,
            Self::Closed => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}

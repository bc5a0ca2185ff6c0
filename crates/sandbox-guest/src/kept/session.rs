use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use sandbox_model::{ExitStatus, Keep, KeptSession, SessionEnd, TermSize};
use sandbox_wire::{ExecInput, ExecOutput, FrameError};
use tokio::process::Child;
use tokio::sync::{Notify, watch};

use super::clients::{Clients, Next};
use super::end::end;
use super::picture::Picture;
use super::report::is_report;
use super::whole::{piece, whole};
use crate::exec::{Input, Rest, Screen, Terminal, exit_status};
use crate::framed::send;
use crate::stream::SessionStream;

/// How long the program waits for a client that takes nothing, once its queue is full.
const STALL: Duration = Duration::from_millis(250);
/// What is read from the program at once.
const READ: usize = 32 * 1024;
/// How long the screen may follow what is read before everybody else has a turn.
const TURN: Duration = Duration::from_millis(10);
/// The most output in one frame.
const PIECE: usize = 60 * 1024;
/// How long the last output of a command that has ended may take.
const KNOWN_WITHIN: Duration = Duration::from_secs(2);

/// One command and its terminal, with or without clients.
pub struct Session {
    pub id: u32,
    /// The command's process group, which is also its session.
    group: Pid,
    keep: Keep,
    cwd: String,
    user: String,
    created: i64,
    state: Mutex<State>,
    /// A client has taken something, or has gone.
    room: Notify,
    ended: watch::Sender<Option<ExitStatus>>,
}

struct State {
    picture: Picture,
    size: TermSize,
    clients: Clients,
    /// Gone with the command: other programs on it are to be hung up then.
    terminal: Option<Arc<Terminal>>,
}

impl State {
    /// Makes the terminal as large as its smallest client; whether that changes anything. Without a client it
    /// stays as it is.
    fn fit(&mut self) -> bool {
        let Some(size) = self.clients.smallest() else { return false };
        let resized = size != self.size;
        if resized {
            self.size = size;
            self.picture.resize(size);
            if let Some(terminal) = &self.terminal {
                // A terminal without programs has no size to speak of.
                let _ = terminal.resize(size);
            }
        }
        self.clients.fit(size);
        resized
    }
}

/// What a session is remembered by.
pub struct Birth {
    pub id: u32,
    pub keep: Keep,
    pub cwd: String,
    pub user: String,
    pub created: i64,
    pub size: TermSize,
}

impl Session {
    /// Takes a command over, with its first client attached. Inside a tokio runtime.
    pub fn begin(birth: Birth, child: Child, group: Pid, terminal: Arc<Terminal>) -> (Arc<Self>, u64) {
        let Birth { id, keep, cwd, user, created, size } = birth;
        let mut clients = Clients::default();
        let first = clients.join(size);
        let state =
            State { picture: Picture::new(size), size, clients, terminal: Some(Arc::clone(&terminal)) };
        let session = Arc::new(Self {
            id,
            group,
            keep,
            cwd,
            user,
            created,
            state: Mutex::new(state),
            room: Notify::new(),
            ended: watch::Sender::new(None),
        });
        tokio::spawn(Arc::clone(&session).run(child, terminal));
        (session, first)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The command itself, which leads its process group.
    pub fn pid(&self) -> u32 {
        self.group.as_raw().cast_unsigned()
    }

    /// `None` while it runs, or while something of its output is still to be read.
    pub fn ended(&self) -> Option<ExitStatus> {
        *self.ended.borrow()
    }

    /// As the host is told of it, at this moment.
    pub fn describe(&self) -> KeptSession {
        let state = self.state();
        KeptSession {
            id: self.id,
            keep: self.keep.clone(),
            cwd: self.cwd.clone(),
            user: self.user.clone(),
            created: self.created,
            size: state.size,
            clients: state.clients.count(),
            ended: self.ended(),
        }
    }

    /// Until the command has ended and all it wrote is in the picture.
    async fn run(self: Arc<Self>, mut child: Child, terminal: Arc<Terminal>) {
        let (tell_exit, exited) = watch::channel(false);
        let wait = async {
            let status = child.wait().await;
            tell_exit.send_replace(true);
            status.map_or(ExitStatus::Code(1), exit_status)
        };
        let (status, _) = tokio::join!(wait, self.follow(&terminal, exited));
        self.state().terminal = None;
        drop(terminal);
        self.ended.send_replace(Some(status));
        self.state().clients.wake_all();
    }

    async fn follow(&self, terminal: &Terminal, exited: watch::Receiver<bool>) -> io::Result<()> {
        let mut rest = Rest::new(exited);
        let mut buffer = vec![0; READ];
        let mut output = Vec::new();
        while let length @ 1.. = rest.read(&mut Screen(terminal), &mut buffer).await? {
            output.extend_from_slice(&buffer[..length]);
            let end = whole(&output);
            self.show(&output[..end]).await;
            output.drain(..end);
        }
        self.show(&output).await;
        Ok(())
    }

    async fn show(&self, output: &[u8]) {
        if output.is_empty() {
            return;
        }
        let mut rest = output;
        let mut turn = Instant::now();
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(piece(rest));
            rest = after;
            {
                let State { picture, clients, .. } = &mut *self.state();
                let was_alternate = picture.is_alternate();
                picture.feed(piece);
                clients.feed(piece, was_alternate, picture);
            }
            // Nobody else gets the turn in the meantime: neither the host nor other sessions.
            if turn.elapsed() > TURN {
                tokio::task::yield_now().await;
                turn = Instant::now();
            }
        }
        loop {
            let mut room = std::pin::pin!(self.room.notified());
            // From here on nothing is missed.
            room.as_mut().enable();
            if !self.state().clients.are_crowded() {
                return;
            }
            if tokio::time::timeout(STALL, room).await.is_err() {
                self.state().clients.leave_slow_behind();
                return;
            }
        }
    }

    /// Adds a client, which gets the whole picture first.
    pub fn join(&self, size: TermSize) -> u64 {
        let mut state = self.state();
        let id = state.clients.join(size);
        let resized = state.fit();
        let State { picture, clients, terminal, .. } = &mut *state;
        clients.introduce(id, picture);
        if let Some(terminal) = terminal {
            // One that stopped itself has nobody but who comes back to it.
            let _ = killpg(self.group, Signal::SIGCONT);
            if !resized {
                // Whatever a program shows that the picture does not know: it draws itself anew.
                let _ = killpg(terminal.foreground().unwrap_or(self.group), Signal::SIGWINCH);
            }
        }
        id
    }

    /// A client is gone: the terminal may grow, and whoever waited for a slow one goes on.
    pub fn leave(&self, client: u64) {
        let mut state = self.state();
        state.clients.leave(client);
        state.fit();
        self.room.notify_waiters();
    }

    /// What a client tells; `None` when the command has ended. The future ends when the client is gone.
    pub fn input(self: &Arc<Self>, client: u64) -> Option<Input> {
        let terminal = self.state().terminal.clone()?;
        let session = Arc::clone(self);
        let filter = move |frame| match frame {
            ExecInput::Resize(size) => {
                let mut state = session.state();
                state.clients.resize(client, size);
                state.fit();
                None
            }
            ExecInput::Stdin(bytes) => {
                let heard = session.state().clients.hear(client, is_report(&bytes));
                heard.then_some(ExecInput::Stdin(bytes))
            }
            other => Some(other),
        };
        Some(Input::shared(terminal, self.group, filter))
    }

    /// Sends a client everything until the command has ended.
    pub async fn output(&self, client: u64, stream: &mut SessionStream) -> Result<ExitStatus, FrameError> {
        let wake = self.state().clients.wake(client).unwrap_or_default();
        loop {
            let ended = self.ended();
            let next = {
                let State { picture, clients, .. } = &mut *self.state();
                clients.next(client, picture, ended.is_some())
            };
            match (next, ended) {
                (Next::Bytes(bytes), _) => {
                    for piece in bytes.chunks(PIECE) {
                        send(stream, &ExecOutput::Stdout(piece.to_vec())).await?;
                    }
                    self.room.notify_waiters();
                }
                (Next::Nothing, Some(status)) => return Ok(status),
                (Next::Nothing, None) => wake.notified().await,
                (Next::Later(delay), _) => tokio::time::sleep(delay).await,
            }
        }
    }

    /// Ends the command and everything else on its terminal; gives what does not end. Returns when the end is
    /// known to all.
    pub async fn end(&self) -> Result<SessionEnd, Vec<Pid>> {
        if self.ended().is_some() {
            return Ok(SessionEnd::Over);
        }
        let foreground = self.state().terminal.as_ref().and_then(|terminal| terminal.foreground());
        let end = end(self.group, foreground).await?;
        let mut ended = self.ended.subscribe();
        let _ = tokio::time::timeout(KNOWN_WITHIN, ended.wait_for(Option::is_some)).await;
        Ok(end)
    }
}

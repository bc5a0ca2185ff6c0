//! A link to the guest program of one boot: `msb exec` carries it, and every command and connection that its
//! process serves travels in a stream of its own. With the link end those that nobody else attends.

use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use rustix::process::Pid;
use sandbox_guest_client::{GuestStream, Link, Window, open_socket};
use sandbox_model::SandboxName;
use sandbox_runtime::RuntimeError;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};

use crate::answer;
use crate::call::{Msb, first_word, kill_group, timing};
use crate::command;

/// How long `msb exec` may take to leave once the link is closed.
const LEAVES_WITHIN: Duration = Duration::from_secs(12);

/// Cheap to clone; all clones are the same link.
#[derive(Debug, Clone)]
pub struct GuestLink {
    link: Link,
    handle: Handle,
    heard: watch::Receiver<bool>,
    ended: watch::Receiver<bool>,
    close: Arc<Notify>,
    said: Arc<Mutex<String>>,
    leader: Option<Pid>,
}

impl GuestLink {
    /// Reaches the guest program in a running sandbox, and starts it where it is not there yet.
    pub fn open(
        handle: &Handle,
        msb: &Msb,
        name: &SandboxName,
        program_id: &str,
    ) -> Result<Self, RuntimeError> {
        let mut command = tokio::process::Command::from(msb.command(&command::link(name, program_id)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let _inside = handle.enter();
        let begun = Instant::now();
        let mut child = command.spawn().map_err(|error| RuntimeError::MissingProgram {
            program: msb.program().display().to_string(),
            problem: error.to_string(),
        })?;
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(RuntimeError::other("msb has no pipes"));
        };
        let (tell_word, heard) = watch::channel(false);
        let from_guest = Heard { from: stdout, silent_since: Some(begun), tell_word };
        let (link, driven) = Link::new(tokio::io::join(from_guest, stdin), Window::Fixed);
        let close = Arc::new(Notify::new());
        let (tell_end, ended) = watch::channel(false);
        let said = Arc::new(Mutex::new(String::new()));
        handle.spawn(listen(stderr, Arc::clone(&said)));
        let (last_words, whose) = (Arc::clone(&said), name.clone());
        let leader = leader(&child);
        let told_to_close = Arc::clone(&close);
        handle.spawn(async move {
            let mut driven = Box::pin(driven);
            tokio::select! {
                () = &mut driven => {}
                () = told_to_close.notified() => {}
                _ = child.wait() => {}
            }
            tell_end.send_replace(true);
            // The pipes go with the link, and that is what tells msb to leave.
            drop(driven);
            let left = tokio::time::timeout(LEAVES_WITHIN, child.wait()).await;
            let said = last_words.lock().unwrap_or_else(PoisonError::into_inner).trim().to_string();
            tracing::info!("the link into {whose} ended ({left:?}): {said}");
            if let (Err(_), Some(leader)) = (left, leader) {
                kill_group(leader);
                let _ = child.wait().await;
            }
        });
        Ok(Self { link, handle: handle.clone(), heard, ended, close, said, leader })
    }

    /// Begins something on a stream. Where there is no answer, the whole link hangs, and is ended.
    pub fn begin<T>(
        &self,
        stream: UnixStream,
        deadline: Duration,
        start: impl FnOnce(UnixStream) -> Result<T, RuntimeError>,
    ) -> Result<T, RuntimeError> {
        let (link, begun) = (self.clone(), Instant::now());
        let outcome = answer::within(stream, deadline, || {}, move || link.kill(), start);
        timing(&["exec".into()], begun);
        outcome
    }

    /// Ends `msb exec` with all that it started.
    pub fn kill(&self) {
        // One that has ended may have been waited for, and its number be another's.
        if let (Some(leader), true) = (self.leader, self.is_alive()) {
            kill_group(leader);
        }
    }

    /// Whether the `msb` that carries it has not ended.
    pub fn is_alive(&self) -> bool {
        !*self.ended.borrow()
    }

    /// Lets `msb exec` leave, and with it every stream end.
    pub fn close(&self) {
        self.close.notify_one();
    }

    /// Until the guest's daemon has taken the link; `false` where it ends before that.
    pub async fn taken(&self) -> bool {
        let (mut heard, mut ended) = (self.heard.clone(), self.ended.clone());
        tokio::select! {
            biased;
            word = heard.wait_for(|heard| *heard) => word.is_ok(),
            _ = ended.wait_for(|ended| *ended) => false,
        }
    }

    /// [`Self::stream`], for whoever copies it himself.
    pub async fn open_stream(&self) -> Option<GuestStream> {
        self.link.open().await
    }

    /// A new stream; `None` when the link is gone.
    pub fn stream(&self) -> Result<Option<UnixStream>, RuntimeError> {
        Ok(self.handle.block_on(open_socket(&self.link))?)
    }

    /// What `msb` and the guest program complained about.
    pub fn complaint(&self) -> String {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).trim().to_string()
    }
}

fn leader(child: &tokio::process::Child) -> Option<Pid> {
    Pid::from_raw(child.id()?.try_into().ok()?)
}

/// What comes from the guest. Its daemon speaks unasked once it has taken the link: by then `msb` is there and has
/// started the guest program, and what is left of a command's time is the command's own.
struct Heard<R> {
    from: R,
    silent_since: Option<Instant>,
    tell_word: watch::Sender<bool>,
}

impl<R: AsyncRead + Unpin> AsyncRead for Heard<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let outcome = Pin::new(&mut self.from).poll_read(context, buffer);
        if buffer.filled().len() > before
            && let Some(begun) = self.silent_since.take()
        {
            first_word(&["exec".into()], begun);
            self.tell_word.send_replace(true);
        }
        outcome
    }
}

/// Keeps the last of what is said on the error output.
async fn listen(mut from: impl AsyncRead + Unpin, said: Arc<Mutex<String>>) {
    const KEPT: usize = 4096;
    let mut buffer = [0; 1024];
    while let Ok(read @ 1..) = tokio::io::AsyncReadExt::read(&mut from, &mut buffer).await {
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        said.push_str(&String::from_utf8_lossy(&buffer[..read]));
        if said.len() > KEPT {
            let cut = said.ceil_char_boundary(said.len() - KEPT);
            said.drain(..cut);
        }
    }
}

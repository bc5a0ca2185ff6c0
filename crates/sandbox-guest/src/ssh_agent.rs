//! The user's ssh-agent, as a socket in the guest.
//!
//! ```text
//! ssh ──► socket ──► waits a moment for a host ──► the host's stream ──► the user's agent
//!                         └ none: closed
//! ```
//!
//! The host opens every stream, so it asks for clients: each request waits for one and becomes its connection.
//! A link that ends takes the waiting requests along; the socket stays, and so do those who come to it.
//!
//! Where the guest program does not boot the guest, it makes the socket when a host first asks for a client, and
//! commands that come before wait for it.

use std::collections::VecDeque;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::{AsyncReadExt, AsyncWriteExt};
use sandbox_model::{GUEST_SSH_AGENT_ASIDE, SSH_AGENT_VARIABLE};
use sandbox_wire::{FrameError, GuestReply};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Notify, oneshot};

use crate::console::say;
use crate::dial::relay;
use crate::exec::Account;
use crate::framed::{FrameReader, send};
use crate::guest::Guest;

/// A client that no host asks for by then is told so, by an end.
const TAKEN_WITHIN: Duration = Duration::from_secs(2);
/// How long a command waits for a socket that is made when a host asks for it. The keeper asks for it as soon as it has
/// a client.
const MADE_WITHIN: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// Clients that wait at once; more are turned away.
const MAX_WAITING: usize = 64;

/// The socket's clients and the requests for them.
#[derive(Debug, Default)]
pub struct Clients {
    requests: Mutex<VecDeque<oneshot::Sender<UnixStream>>>,
    asked: Notify,
    waiting: AtomicUsize,
    socket: Mutex<Option<PathBuf>>,
}

impl Clients {
    /// Makes the socket at its place, for `user`; harmless to repeat.
    pub fn listen(self: &Arc<Self>, user: &str, place: &str) -> io::Result<()> {
        let account = Account::find(Path::new("/etc"), user)
            .ok_or_else(|| io::Error::other(format!("there is no user {user:?} in the sandbox")))?;
        self.listen_at(Path::new(place), |path| {
            Ok(nix::unistd::chown(path, Some(account.uid), Some(account.gid))?)
        })
    }

    fn listen_at(self: &Arc<Self>, path: &Path, own: impl Fn(&Path) -> io::Result<()>) -> io::Result<()> {
        let mut socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        if socket.is_some() {
            return Ok(());
        }
        if let Some(folder) = path.parent() {
            fs_err::create_dir_all(folder)?;
        }
        // What a former process of this program left.
        match fs_err::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(path)?;
        fs_err::set_permissions(path, PermissionsExt::from_mode(0o600))?;
        own(path)?;
        *socket = Some(path.into());
        let clients = Arc::clone(self);
        tokio::spawn(async move { clients.accept(&listener).await });
        Ok(())
    }

    async fn accept(self: Arc<Self>, listener: &UnixListener) {
        loop {
            match listener.accept().await {
                Ok((client, _)) if self.waiting.load(Ordering::Relaxed) < MAX_WAITING => {
                    self.waiting.fetch_add(1, Ordering::Relaxed);
                    let clients = Arc::clone(&self);
                    tokio::spawn(async move {
                        let _ = tokio::time::timeout(TAKEN_WITHIN, clients.hand_over(client)).await;
                        clients.waiting.fetch_sub(1, Ordering::Relaxed);
                    });
                }
                Ok(_) => {}
                Err(error) => {
                    say(format_args!("cannot take a client of the ssh-agent: {error}"));
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    async fn hand_over(&self, mut client: UnixStream) {
        loop {
            let asked = self.asked.notified();
            while let Some(request) = self.next_request() {
                // One whose host is gone gives the client back.
                match request.send(client) {
                    Ok(()) => return,
                    Err(back) => client = back,
                }
            }
            asked.await;
        }
    }

    fn next_request(&self) -> Option<oneshot::Sender<UnixStream>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    fn request(&self) -> oneshot::Receiver<UnixStream> {
        let (sender, receiver) = oneshot::channel();
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).push_back(sender);
        self.asked.notify_waiters();
        receiver
    }
}

/// Waits for a client, and becomes its connection.
pub async fn answer(frames: FrameReader, guest: &Arc<Guest>) -> Result<(), FrameError> {
    let (early, mut stream) = frames.into_raw();
    let user = guest.settings().map(|settings| settings.user.clone()).unwrap_or_default();
    let place = guest.machine.ssh_agent();
    if let Err(error) = guest.ssh_agent.listen(&user, place) {
        send(&mut stream, &GuestReply::Failed(format!("{place}: {error}"))).await?;
        return Ok(stream.close().await?);
    }
    let client = guest.ssh_agent.request();
    let mut gone = stream.clone();
    let mut byte = [0];
    let client = tokio::select! {
        client = client => client,
        // The host says nothing before it has its client: whatever comes is its end.
        _ = gone.read(&mut byte) => return Ok(()),
    };
    let Ok(client) = client else { return Ok(stream.close().await?) };
    send(&mut stream, &GuestReply::Ok).await?;
    let (from_guest, to_guest) = client.into_split();
    Ok(relay(from_guest, to_guest, stream, early).await?)
}

/// Waits until a command with these variables finds its agent, where its socket is still to be made.
pub async fn wait_for(env: &[(String, String)]) {
    let wants =
        |(name, value): &(String, String)| name == SSH_AGENT_VARIABLE && value == GUEST_SSH_AGENT_ASIDE;
    if env.iter().any(wants) {
        wait_at(Path::new(GUEST_SSH_AGENT_ASIDE), MADE_WITHIN).await;
    }
}

/// A socket that nobody serves any more is not the one.
async fn wait_at(socket: &Path, patience: Duration) {
    let made = async {
        while UnixStream::connect(socket).await.is_err() {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    // Without it the command is told by itself.
    let _ = tokio::time::timeout(patience, made).await;
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    fn clients(dir: &Path) -> (Arc<Clients>, PathBuf) {
        let clients = Arc::new(Clients::default());
        let path = dir.join("run/agent.sock");
        clients.listen_at(&path, |_| Ok(())).unwrap();
        clients.listen_at(&path, |_| Err(io::Error::other("made twice"))).unwrap();
        (clients, path)
    }

    #[tokio::test]
    async fn a_client_waits_for_a_host_and_passes_one_that_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let (clients, path) = clients(dir.path());
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        drop(clients.request());
        let mut client = UnixStream::connect(&path).await.unwrap();
        client.write_all(b"hello").await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        let mut taken = clients.request().await.unwrap();
        let mut said = [0; 5];
        taken.read_exact(&mut said).await.unwrap();
        assert_eq!(&said, b"hello");
    }

    #[tokio::test]
    async fn a_command_waits_for_the_socket_and_not_for_one_that_is_left_over() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run/agent.sock");
        std::fs::create_dir(dir.path().join("run")).unwrap();
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let began = std::time::Instant::now();
        wait_at(&path, Duration::from_millis(100)).await;
        assert!(began.elapsed() >= Duration::from_millis(100), "it took a socket that nobody serves");
        let waits = tokio::spawn({
            let path = path.clone();
            async move { wait_at(&path, TAKEN_WITHIN * 10).await }
        });
        let (_clients, _) = clients(dir.path());
        tokio::time::timeout(TAKEN_WITHIN, waits).await.unwrap().unwrap();
        // A command without an agent waits for none.
        wait_for(&[(SSH_AGENT_VARIABLE.into(), "/run/mine".into())]).await;
    }

    #[tokio::test]
    async fn without_a_host_the_connection_ends_soon() {
        let dir = tempfile::tempdir().unwrap();
        let (_clients, path) = clients(dir.path());
        let mut client = UnixStream::connect(&path).await.unwrap();
        let mut byte = [0];
        let read = client.read(&mut byte);
        assert_eq!(tokio::time::timeout(TAKEN_WITHIN * 5, read).await.unwrap().unwrap(), 0);
    }
}

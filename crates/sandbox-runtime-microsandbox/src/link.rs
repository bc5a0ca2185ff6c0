//! A link to the guest program of one boot: `msb exec` carries it, and every command and connection of this
//! process travels in a stream of its own. With the link end those that nobody else attends.

use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sandbox_guest_client::{Link, Window, open_socket};
use sandbox_model::SandboxName;
use sandbox_runtime::RuntimeError;
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::call::{ASK, Msb};
use crate::command;

/// How long `msb exec` may take to leave once the link is closed.
const LEAVES_WITHIN: Duration = Duration::from_secs(12);

/// Cheap to clone; all clones are the same link.
#[derive(Debug, Clone)]
pub struct GuestLink {
    link: Link,
    handle: Handle,
    ended: watch::Receiver<bool>,
    users: Arc<AtomicUsize>,
    said: Arc<Mutex<String>>,
}

/// Keeps the runtime's own idle stop away for as long as it lives.
#[derive(Debug)]
pub struct Hold {
    users: Arc<AtomicUsize>,
}

impl Hold {
    fn new(users: &Arc<AtomicUsize>) -> Self {
        users.fetch_add(1, Ordering::Relaxed);
        Self { users: Arc::clone(users) }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.users.fetch_sub(1, Ordering::Relaxed);
    }
}

impl GuestLink {
    /// Reaches the guest program in a running sandbox, and starts it where it is not there yet. `idle` is the runtime's own idle timeout.
    pub fn open(
        handle: &Handle,
        msb: &Msb,
        name: &SandboxName,
        program_id: &str,
        idle: Duration,
    ) -> Result<Self, RuntimeError> {
        let mut command = tokio::process::Command::from(msb.command(&command::link(name, program_id)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let _inside = handle.enter();
        let mut child = command.spawn().map_err(|error| RuntimeError::MissingProgram {
            program: msb.program().display().to_string(),
            problem: error.to_string(),
        })?;
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(RuntimeError::other("msb has no pipes"));
        };
        let (link, driven) = Link::new(tokio::io::join(stdout, stdin), Window::Fixed);
        let (tell_end, ended) = watch::channel(false);
        let said = Arc::new(Mutex::new(String::new()));
        let users = Arc::new(AtomicUsize::new(0));
        handle.spawn(listen(stderr, Arc::clone(&said)));
        let (last_words, whose) = (Arc::clone(&said), name.clone());
        handle.spawn(async move {
            let mut driven = Box::pin(driven);
            tokio::select! {
                () = &mut driven => {}
                _ = child.wait() => {}
            }
            tell_end.send_replace(true);
            // The pipes go with the link, and that is what tells msb to leave.
            drop(driven);
            let left = tokio::time::timeout(LEAVES_WITHIN, child.wait()).await;
            let said = last_words.lock().unwrap_or_else(PoisonError::into_inner).trim().to_string();
            tracing::info!("the link into {whose} ended ({left:?}): {said}");
            if left.is_err() {
                let _ = child.kill().await;
            }
        });
        handle.spawn(keep_awake(msb.clone(), name.clone(), idle, Arc::clone(&users), ended.clone()));
        Ok(Self { link, handle: handle.clone(), ended, users, said })
    }

    pub fn is_alive(&self) -> bool {
        !*self.ended.borrow()
    }

    /// A new stream; `None` when the link is gone.
    pub fn stream(&self) -> Result<Option<UnixStream>, RuntimeError> {
        Ok(self.handle.block_on(open_socket(&self.link))?)
    }

    pub fn hold(&self) -> Hold {
        Hold::new(&self.users)
    }

    /// What `msb` and the guest program complained about.
    pub fn complaint(&self) -> String {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).trim().to_string()
    }
}

/// Keeps the last of what is said on the error output.
async fn listen(mut from: impl tokio::io::AsyncRead + Unpin, said: Arc<Mutex<String>>) {
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

/// Tells `msb` often enough that somebody is there, while somebody is.
async fn keep_awake(
    msb: Msb,
    name: SandboxName,
    idle: Duration,
    users: Arc<AtomicUsize>,
    mut ended: watch::Receiver<bool>,
) {
    let every = (idle / 3).clamp(Duration::from_secs(1), Duration::from_mins(10));
    loop {
        tokio::select! {
            _ = ended.wait_for(|ended| *ended) => return,
            () = tokio::time::sleep(every) => {}
        }
        if users.load(Ordering::Relaxed) > 0 {
            let (msb, line) = (msb.clone(), command::touch(&name));
            if let Ok(Err(error)) = tokio::task::spawn_blocking(move || msb.run(&line, ASK)).await {
                tracing::debug!("{error}");
            }
        }
    }
}

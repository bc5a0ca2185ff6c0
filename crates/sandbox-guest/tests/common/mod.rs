//! The host's side of a link: a guest as a task of this process, and a client for its streams.
// Each test program uses its own part; a helper that fails is a test that fails.
#![allow(dead_code, clippy::unwrap_used)]

use std::future::poll_fn;
use std::io;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use futures::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use nix::unistd::{User, geteuid};
use sandbox_guest::{BootError, Guest, LinkEnd, Machine, Settings, Steps, link_config, serve};
use sandbox_model::{ExitStatus, KeptSession, TermSize};
use sandbox_wire::{
    BootConfig, ExecInput, ExecOutput, ExecRequest, GuestReply, GuestRequest, GuestSessionEnd, GuestSessions,
    decode, encode,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::compat::TokioAsyncReadCompatExt;
use yamux::{Connection, Mode, Stream};

/// Long enough for a loaded machine, short enough to see what hangs.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A machine that only remembers what was asked of it.
#[derive(Debug, Default)]
pub struct FakeMachine {
    pub calls: Mutex<Vec<String>>,
    pub boot_fails: bool,
}

impl FakeMachine {
    fn note(&self, call: String) {
        self.calls.lock().unwrap().push(call);
    }

    pub fn calls(&self) -> Vec<String> {
        self.calls.lock().unwrap().clone()
    }
}

impl Machine for FakeMachine {
    fn boot(&self, config: &BootConfig, steps: &Steps) -> Result<(), BootError> {
        self.note(format!("boot {}", config.hostname));
        steps.enter("mounting home");
        if self.boot_fails {
            let source = io::Error::from_raw_os_error(nix::errno::Errno::ENODEV as i32);
            return Err(BootError::Step { step: steps.current(), source });
        }
        Ok(())
    }

    fn set_clock(&self, unix_nanos: u64) -> io::Result<()> {
        self.note(format!("clock {unix_nanos}"));
        Ok(())
    }

    fn settle(&self) -> io::Result<()> {
        self.note("settle".into());
        Ok(())
    }

    fn wake(&self, unix_nanos: u64) -> io::Result<()> {
        self.note(format!("wake {unix_nanos}"));
        Ok(())
    }

    fn shut_down(&self, grace: Duration) {
        self.note(format!("shut down {}", grace.as_millis()));
    }
}

/// The host's end of a link. It ends when this is dropped.
pub struct Client(mpsc::UnboundedSender<oneshot::Sender<Stream>>);

pub struct Host {
    client: Client,
    pub served: JoinHandle<LinkEnd>,
    pub machine: Arc<FakeMachine>,
    pub guest: Arc<Guest>,
}

impl std::ops::Deref for Host {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Host {
    /// A link to a guest that has booted; its commands run as the user that runs this test.
    pub fn booted() -> Self {
        Self::with(FakeMachine::default(), Some(vec![("SANDBOX".into(), "yes".into())]))
    }

    pub fn with(machine: FakeMachine, env: Option<Vec<(String, String)>>) -> Self {
        let machine = Arc::new(machine);
        let guest = Arc::new(Guest::new(Arc::clone(&machine) as Arc<dyn Machine>));
        if let Some(env) = env {
            guest.booted(Settings { env, user: me() });
        }
        Self::again(&guest, &machine)
    }

    /// Another link to the same guest: what a host has after a sleep.
    pub fn again(guest: &Arc<Guest>, machine: &Arc<FakeMachine>) -> Self {
        let (near, far) = UnixStream::pair().unwrap();
        let served = tokio::spawn(serve(far.compat(), Arc::clone(guest)));
        Self { client: Client::new(near), served, machine: Arc::clone(machine), guest: Arc::clone(guest) }
    }

    /// Cuts the link, and gives how the guest took it.
    pub async fn disconnect(self) -> LinkEnd {
        drop(self.client);
        self.served.await.unwrap()
    }
}

impl Client {
    pub fn new(carrier: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Self {
        Self(drive(carrier))
    }

    pub async fn open(&self) -> Stream {
        let (answer, opened) = oneshot::channel();
        self.0.send(answer).unwrap();
        opened.await.unwrap()
    }

    pub async fn ask(&self, request: &GuestRequest) -> GuestReply {
        let mut stream = self.open().await;
        stream.write_all(&encode(request).unwrap()).await.unwrap();
        receive(&mut stream).await.expect("a reply")
    }

    pub async fn end(&self, session: u32) -> GuestSessionEnd {
        let mut stream = self.open().await;
        stream.write_all(&encode(&GuestRequest::EndSession { session }).unwrap()).await.unwrap();
        receive(&mut stream).await.expect("a reply")
    }

    pub async fn exec(&self, request: ExecRequest) -> Exec {
        self.begin(&GuestRequest::Exec(Box::new(request))).await
    }

    /// Joins a kept session.
    pub async fn attach(&self, session: u32, size: TermSize) -> Exec {
        self.begin(&GuestRequest::Attach { session, size }).await
    }

    async fn begin(&self, request: &GuestRequest) -> Exec {
        let (from, to) = self.open().await.split();
        let mut exec = Exec { from, to: To(to) };
        exec.to.send(request).await;
        exec
    }

    /// The kept sessions.
    pub async fn sessions(&self) -> Vec<KeptSession> {
        let mut stream = self.open().await;
        stream.write_all(&encode(&GuestRequest::ListSessions).unwrap()).await.unwrap();
        let GuestSessions(sessions) = receive(&mut stream).await.expect("a list");
        sessions
    }

    /// Runs a shell script to its end.
    pub async fn run(&self, script: &str) -> Ran {
        self.exec(sh(script)).await.finish().await
    }
}

fn drive(
    carrier: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> mpsc::UnboundedSender<oneshot::Sender<Stream>> {
    let (open, mut wanted) = mpsc::unbounded_channel::<oneshot::Sender<Stream>>();
    let mut connection = Connection::new(carrier.compat(), link_config(), Mode::Client);
    tokio::spawn(async move {
        let mut waiting = None;
        poll_fn(|cx| {
            loop {
                if waiting.is_none() {
                    match wanted.poll_recv(cx) {
                        Poll::Ready(Some(answer)) => waiting = Some(answer),
                        Poll::Ready(None) => return Poll::Ready(()),
                        Poll::Pending => {}
                    }
                }
                if waiting.is_some()
                    && let Poll::Ready(Ok(stream)) = connection.poll_new_outbound(cx)
                {
                    let _ = waiting.take().unwrap().send(stream);
                    continue;
                }
                return match connection.poll_next_inbound(cx) {
                    Poll::Ready(Some(Ok(_))) => panic!("the guest opened a stream"),
                    Poll::Ready(_) => Poll::Ready(()),
                    Poll::Pending => Poll::Pending,
                };
            }
        })
        .await;
    });
    open
}

pub async fn receive<T: DeserializeOwned>(from: &mut (impl futures::AsyncRead + Unpin)) -> Option<T> {
    let mut length = [0; 4];
    from.read_exact(&mut length).await.ok()?;
    let mut body = vec![0; u32::from_le_bytes(length) as usize];
    from.read_exact(&mut body).await.ok()?;
    Some(decode(&body).unwrap())
}

/// A client's view of one command.
pub struct Exec {
    pub from: ReadHalf<Stream>,
    pub to: To,
}

pub struct To(pub WriteHalf<Stream>);

impl To {
    pub async fn send<T: Serialize>(&mut self, message: &T) {
        self.0.write_all(&encode(message).unwrap()).await.unwrap();
    }

    pub async fn stdin(&mut self, bytes: &[u8]) {
        self.send(&ExecInput::Stdin(bytes.to_vec())).await;
    }
}

/// How a command went, all of it.
#[derive(Debug, Default)]
pub struct Ran {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub end: Option<ExitStatus>,
    pub failed: Option<(i32, String)>,
}

impl Ran {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).unwrap()
    }
}

impl Exec {
    pub async fn next(&mut self) -> Option<ExecOutput> {
        tokio::time::timeout(PATIENCE, receive(&mut self.from)).await.expect("the guest is silent")
    }

    pub async fn started(&mut self) -> u32 {
        match self.next().await {
            Some(ExecOutput::Started { pid, .. }) => pid,
            other => panic!("not started: {other:?}"),
        }
    }

    /// Output until it contains `wanted`, from `Started` on.
    pub async fn until(&mut self, wanted: &str) -> String {
        let mut seen = String::new();
        while !seen.contains(wanted) {
            match self.next().await {
                Some(ExecOutput::Stdout(bytes)) => seen.push_str(std::str::from_utf8(&bytes).unwrap()),
                Some(ExecOutput::Started { .. }) => {}
                other => panic!("{other:?} instead of {wanted:?} after {seen:?}"),
            }
        }
        seen
    }

    /// Everything up to the last frame, after which the stream must end.
    pub async fn finish(mut self) -> Ran {
        let mut ran = Ran::default();
        while let Some(frame) = self.next().await {
            assert_eq!((ran.end, &ran.failed), (None, &None), "a frame after the last: {frame:?}");
            match frame {
                ExecOutput::Started { .. } => {}
                ExecOutput::Stdout(bytes) => ran.stdout.extend(bytes),
                ExecOutput::Stderr(bytes) => ran.stderr.extend(bytes),
                ExecOutput::Exited(status) => ran.end = Some(status),
                ExecOutput::Failed { code, message } => ran.failed = Some((code, message)),
            }
        }
        ran
    }
}

/// The name of the user that runs this test.
pub fn me() -> String {
    User::from_uid(geteuid()).unwrap().unwrap().name
}

pub fn command(argv: &[&str]) -> ExecRequest {
    ExecRequest {
        argv: argv.iter().map(|word| word.as_bytes().to_vec()).collect(),
        env: Vec::new(),
        cwd: "/".into(),
        user: me(),
        tty: None,
        detach: false,
        keep: None,
    }
}

pub fn sh(script: &str) -> ExecRequest {
    command(&["/bin/sh", "-c", script])
}

pub fn on_terminal(script: &str) -> ExecRequest {
    ExecRequest { tty: Some(TermSize { cols: 81, rows: 23 }), ..sh(script) }
}

/// Whether a process exists and has not ended.
pub fn is_alive(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit_once(") ").unwrap().1.starts_with('Z'))
}

/// Waits for a condition that another process brings about.
pub async fn eventually(what: &str, condition: impl Fn() -> bool) {
    let waited = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waited).await.unwrap_or_else(|_| panic!("never happened: {what}"));
}

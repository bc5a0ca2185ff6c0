//! Links over standard input and output: the real program, on a machine that another init has booted.

#![allow(clippy::unwrap_used)]

mod common;

use std::os::fd::AsFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use common::{Client, Exec, PATIENCE, eventually, is_alive, on_terminal, sh};
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use sandbox_model::{ExitStatus, Keep, SessionEnd, TermSize};
use sandbox_wire::{ExecOutput, ExecRequest, GuestSessionEnd};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

const SIZE: TermSize = TermSize { cols: 81, rows: 23 };

/// Where a daemon listens; what listens there ends with this.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn folder(&self) -> std::path::PathBuf {
        self.0.path().join("sandbox")
    }

    fn link(&self) -> Link {
        let (process, to, from) = self.program();
        Link { client: Client::new(tokio::io::join(from, to)), process }
    }

    /// A link that nobody speaks over yet.
    fn program(&self) -> (Child, ChildStdin, ChildStdout) {
        let mut program = Command::new(env!("CARGO_BIN_EXE_sandbox-guest"));
        program.arg("stdio").arg(self.folder()).stdin(Stdio::piped()).stdout(Stdio::piped());
        // As whoever runs it may end it: with all of its group.
        let mut process = program.process_group(0).kill_on_drop(true).spawn().unwrap();
        let (to, from) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        (process, to, from)
    }

    /// The processes of daemons that were given this folder: their socket is in it.
    fn daemons(&self) -> Vec<u32> {
        let sockets = std::fs::read_to_string("/proc/net/unix").unwrap();
        let inodes: Vec<String> = sockets
            .lines()
            .filter(|line| line.contains(self.folder().to_str().unwrap()))
            .filter_map(|line| Some(format!("socket:[{}]", line.split_whitespace().nth(6)?)))
            .collect();
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        numbers.filter(|process| has_open(*process, &inodes)).collect()
    }
}

fn has_open(process: u32, inodes: &[String]) -> bool {
    // One of somebody else, or one that has ended, shows nothing.
    let open = std::fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    let mut targets = open.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    targets.any(|target| inodes.iter().any(|inode| target == Path::new(inode)))
}

impl Drop for Place {
    fn drop(&mut self) {
        for daemon in self.daemons() {
            let _ = kill(pid(daemon), Signal::SIGKILL);
        }
    }
}

struct Link {
    client: Client,
    process: Child,
}

impl std::ops::Deref for Link {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Link {
    /// The process that has the link's commands.
    async fn daemon(&self) -> u32 {
        self.run("echo $PPID").await.text().trim().parse().unwrap()
    }

    /// As when nobody waits for the link any more.
    async fn kill(mut self) {
        killpg(pid(self.process.id().unwrap()), Signal::SIGKILL).unwrap();
        self.process.wait().await.unwrap();
    }

    /// Closes its input, and waits until the program has ended by itself.
    async fn close(self) {
        let Self { client, mut process } = self;
        drop(client);
        ends(&mut process).await;
    }
}

async fn ends(process: &mut Child) {
    let ended = tokio::time::timeout(PATIENCE, process.wait()).await.expect("the link does not end");
    assert!(ended.unwrap().success());
}

fn pid(number: u32) -> Pid {
    Pid::from_raw(number.cast_signed())
}

/// Starts a command that is kept; its client, its process and its number.
async fn keep(link: &Link, script: &str) -> (Exec, u32, u32) {
    let keep = Keep { kind: "shell".into(), key: String::new(), title: "a test".into() };
    let mut exec = link.exec(ExecRequest { keep: Some(keep), ..on_terminal(script) }).await;
    match exec.next().await {
        Some(ExecOutput::Started { pid, session: Some(session) }) => (exec, pid, session),
        other => panic!("not kept: {other:?}"),
    }
}

async fn without_client(link: &Link, session: u32) {
    let begun = Instant::now();
    loop {
        let found = link.sessions().await;
        if found.iter().any(|one| one.id == session && one.clients == 0) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "never without a client: {found:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

const ECHO: &str = "stty -echo; echo ready.; while read -r line; do echo \"<$line>\"; done";

#[tokio::test]
async fn all_links_know_the_same_sessions() {
    let place = Place::new();
    let (one, two) = (place.link(), place.link());
    let (mut first, process, session) = keep(&one, ECHO).await;
    first.until("ready.").await;
    assert_eq!(two.sessions().await.iter().map(|found| found.id).collect::<Vec<_>>(), [session]);
    let mut second = two.attach(session, SIZE).await;
    second.until("ready.").await;
    second.to.stdin(b"from two\r").await;
    first.until("<from two>").await;
    assert_eq!(two.end(session).await, GuestSessionEnd::Ended(SessionEnd::HungUp));
    assert_eq!(first.finish().await.end, Some(ExitStatus::Signal(1)));
    assert!(!is_alive(process) && one.sessions().await.is_empty());
}

#[tokio::test]
async fn what_is_kept_outlives_all_links_however_they_end() {
    let place = Place::new();
    let (one, two) = (place.link(), place.link());
    let (mut first, process, session) = keep(&one, ECHO).await;
    first.until("ready.").await;
    let daemon = one.daemon().await;
    one.kill().await;
    without_client(&two, session).await;
    two.close().await;
    assert!(is_alive(process) && is_alive(daemon));

    let three = place.link();
    assert_eq!(three.daemon().await, daemon);
    let mut again = three.attach(session, SIZE).await;
    again.until("ready.").await;
    again.to.stdin(b"still there\r").await;
    again.until("<still there>").await;
    three.end(session).await;
}

#[tokio::test]
async fn a_command_that_is_not_kept_ends_with_its_own_link_alone() {
    let place = Place::new();
    let links = [place.link(), place.link(), place.link()];
    let mut commands = Vec::new();
    for (link, request) in links.iter().zip([sh, on_terminal, sh]) {
        let mut exec = link.exec(request("echo ready.; exec sleep 1000")).await;
        let process = exec.started().await;
        exec.until("ready.").await;
        commands.push((exec, process));
    }
    let [one, two, three] = links;
    one.kill().await;
    two.close().await;
    let [first, second, third] = [0, 1, 2].map(|place| commands[place].1);
    eventually("what was attended is hung up", || !is_alive(first) && !is_alive(second)).await;
    // Its link answers, and so the daemon has seen the others end.
    assert_eq!(three.run("exit 3").await.end, Some(ExitStatus::Code(3)));
    assert!(is_alive(third));
    three.close().await;
    eventually("the last one is hung up", || !is_alive(third)).await;
}

#[tokio::test]
async fn links_that_come_at_once_start_one_daemon_for_its_user_alone() {
    let place = Place::new();
    let links: Vec<Link> = (0..8).map(|_| place.link()).collect();
    let mut daemons = Vec::new();
    for link in &links {
        daemons.push(link.daemon().await);
    }
    daemons.dedup();
    assert_eq!(daemons, place.daemons());
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&place.folder()), 0o700);
    let files = std::fs::read_dir(place.folder()).unwrap().flatten().map(|entry| entry.path());
    let sockets: Vec<_> = files.filter(|path| path.extension().is_some_and(|end| end == "sock")).collect();
    assert_eq!(sockets.iter().map(|path| mode(path)).collect::<Vec<_>>(), [0o600]);
}

#[tokio::test]
async fn a_daemon_has_nothing_of_the_link_that_started_it() {
    let place = Place::new();
    let link = place.link();
    let daemon = link.daemon().await;
    assert_eq!(nix::unistd::getsid(Some(pid(daemon))).unwrap(), pid(daemon), "a session of its own");
    let read = |name: &str| std::fs::read(format!("/proc/{daemon}/{name}")).unwrap();
    assert_eq!(read("environ"), b"");
    assert_eq!(std::fs::read_link(format!("/proc/{daemon}/cwd")).unwrap(), Path::new("/"));
    for stream in [1, 2] {
        let target = std::fs::read_link(format!("/proc/{daemon}/fd/{stream}")).unwrap();
        assert_eq!(target, Path::new("/dev/null"), "stream {stream}");
    }
}

#[tokio::test]
async fn a_daemon_that_was_killed_is_started_again() {
    let place = Place::new();
    let one = place.link();
    let daemon = one.daemon().await;
    kill(pid(daemon), Signal::SIGKILL).unwrap();
    let ended = tokio::time::timeout(PATIENCE, async { { one }.process.wait().await }).await;
    ended.expect("a link outlives its daemon").unwrap();
    let two = place.link();
    assert_ne!(two.daemon().await, daemon);
}

#[tokio::test]
async fn a_link_ends_with_its_input_though_nobody_reads_its_output() {
    let place = Place::new();
    let (mut process, to, output) = place.program();
    // A host that hears nothing: what it is told stays in the pipe.
    let (silence, _held) = tokio::io::duplex(1);
    let client = Client::new(tokio::io::join(silence, to));
    let _commands = [client.exec(sh("exec yes")).await, client.exec(sh("exec yes")).await];
    let pipe = std::fs::File::options()
        .write(true)
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(format!("/proc/{}/fd/1", process.id().unwrap()))
        .unwrap();
    eventually("the link's output is full", || {
        let mut writable = [PollFd::new(pipe.as_fd(), PollFlags::POLLOUT)];
        poll(&mut writable, PollTimeout::ZERO).unwrap() == 0
    })
    .await;
    let [daemon] = place.daemons()[..] else { panic!("more than a daemon") };
    drop(client);
    ends(&mut process).await;
    drop(output);
    eventually("what was attended is hung up", || children(daemon).is_empty()).await;
}

fn children(process: u32) -> String {
    std::fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap()
}

#[tokio::test]
async fn a_link_ends_with_the_reader_of_its_output_though_its_input_stays() {
    let place = Place::new();
    let (mut process, _input, mut output) = place.program();
    // The daemon asks how long the way is, and after that says nothing unasked: no write fails.
    let ping = tokio::time::timeout(PATIENCE, output.read_exact(&mut [0; 12])).await;
    ping.expect("the daemon is silent").unwrap();
    drop(output);
    ends(&mut process).await;
}

/// Far more than a link has on its way at once, in both directions.
#[tokio::test]
async fn much_arrives_whole() {
    const LENGTH: usize = 5_000_000;
    let place = Place::new();
    let link = place.link();
    let mut exec = link.exec(sh("tr a b")).await;
    let mut to = exec.to;
    let sending = tokio::spawn(async move {
        for _ in 0..LENGTH / 50_000 {
            to.stdin(&vec![b'a'; 50_000]).await;
        }
        to.send(&sandbox_wire::ExecInput::Eof).await;
        to
    });
    let (mut received, mut end) = (0, None);
    while end.is_none() {
        match tokio::time::timeout(PATIENCE, common::receive(&mut exec.from)).await.unwrap().unwrap() {
            ExecOutput::Stdout(bytes) => {
                assert!(bytes.iter().all(|byte| *byte == b'b'));
                received += bytes.len();
            }
            ExecOutput::Exited(status) => end = Some(status),
            ExecOutput::Started { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((received, end), (LENGTH, Some(ExitStatus::SUCCESS)));
    drop(sending.await.unwrap());
}

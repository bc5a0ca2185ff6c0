//! One share server in its own processes.

use std::fs;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Resource, Rlimit, setrlimit};
use sandbox_share::ShareConfig;
use tempfile::TempDir;

/// The verb under which this program serves instead of testing.
pub const VERB: &str = "serve-share";
/// The verb under which it starts a server and then waits to be killed.
pub const PARENT_VERB: &str = "start-share-and-wait";

pub struct Server {
    pub child: Child,
    pub socket: PathBuf,
    _sockets: TempDir,
}

impl Server {
    pub fn start(config: &ShareConfig) -> Self {
        Self::start_by(command(), config)
    }

    /// Starts `command`, which ends by running this program with the arguments it is given.
    pub fn start_by(mut command: Command, config: &ShareConfig) -> Self {
        let sockets = tempfile::tempdir().unwrap();
        let socket = sockets.path().join("share.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        fcntl_setfd(&listener, FdFlags::empty()).unwrap();
        command.arg(listener.as_raw_fd().to_string()).stdin(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let text = serde_json::to_vec(config).unwrap();
        child.stdin.take().unwrap().write_all(&text).unwrap();
        Self { child, socket, _sockets: sockets }
    }

    pub fn connect(&self) -> UnixStream {
        UnixStream::connect(&self.socket).unwrap()
    }

    /// The process inside the sandbox: the youngest descendant.
    pub fn inner(&self) -> u32 {
        youngest(self.child.id())
    }

    pub fn status(&self) -> Status {
        Status(fs::read_to_string(format!("/proc/{}/status", self.inner())).unwrap())
    }

    pub fn wait(&mut self) -> ExitStatus {
        let patience = Instant::now() + Duration::from_secs(10);
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < patience, "the server does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `/proc/PID/status`.
pub struct Status(String);

impl Status {
    pub fn field(&self, name: &str) -> String {
        let line = self.0.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap_or_else(|| panic!("{name}")).trim().to_owned()
    }
}

pub fn command() -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg(VERB);
    command
}

/// Runs the verb: what the program does as `internal share`.
pub fn serve(arguments: &[String]) {
    let number = arguments[0].parse().unwrap();
    // SAFETY: whoever started this process handed the descriptor over to it.
    let listener = UnixListener::from(unsafe { OwnedFd::from_raw_fd(number) });
    fcntl_setfd(&listener, FdFlags::CLOEXEC).unwrap();
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).unwrap();
    let config: ShareConfig = serde_json::from_str(&text).unwrap();
    if let Some(limit) = std::env::var_os("SHARE_TEST_OPEN_FILES") {
        let limit = limit.to_str().unwrap().parse().ok();
        setrlimit(Resource::Nofile, Rlimit { current: limit, maximum: limit }).unwrap();
    }
    if let Err(error) = sandbox_share::serve(config, listener) {
        let _ = writeln!(std::io::stderr(), "share: {error}");
        std::process::exit(1);
    }
}

/// Runs the other verb: a parent that only waits, for as long as whoever started it holds its stdin. Prints the
/// server's socket once it is there.
pub fn start_and_wait(arguments: &[String]) {
    let config: ShareConfig = serde_json::from_str(&arguments[0]).unwrap();
    let server = Server::start(&config);
    let mut out = std::io::stdout();
    writeln!(out, "{} {}", server.child.id(), server.socket.display()).unwrap();
    out.flush().unwrap();
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

/// The last in the line of first children.
pub fn youngest(pid: u32) -> u32 {
    let mut at = pid;
    while let Some(child) = children(at).first() {
        at = *child;
    }
    at
}

/// The youngest process below `pid`, if it waits, behind its walls, for a machine: it has no capabilities any more. So
/// have those that started it and those that tried out whether it could be, but these are the first of no namespace.
pub fn in_sandbox(pid: u32) -> Option<u32> {
    let youngest = youngest(pid);
    let status = fs::read_to_string(format!("/proc/{youngest}/status")).ok()?;
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    let is_first = field("NSpid:")?.split_whitespace().last() == Some("1");
    let has_none = field("CapBnd:")?.trim().chars().all(|digit| digit == '0');
    (is_first && has_none).then_some(youngest)
}

fn children(pid: u32) -> Vec<u32> {
    let listed = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    listed.split_whitespace().filter_map(|child| child.parse().ok()).collect()
}

pub fn alive(pid: u32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    // A zombie is dead, whoever should have collected it.
    !stat.rsplit(") ").next().unwrap_or_default().starts_with('Z')
}

pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let patience = Instant::now() + Duration::from_secs(10);
    while !condition() {
        assert!(Instant::now() < patience, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A share of `dir`, which belongs to `owner`: a user and a group.
pub fn config(dir: &Path, owner: (u32, u32)) -> ShareConfig {
    ShareConfig {
        dir: dir.canonicalize().unwrap(),
        quota_bytes: 0,
        readonly: false,
        host_uid: owner.0,
        host_gid: owner.1,
        guest_uid: 1000,
        guest_gid: 1000,
        max_descriptors: None,
        several: Vec::new(),
    }
}

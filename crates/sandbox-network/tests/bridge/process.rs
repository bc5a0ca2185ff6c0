//! The bridge as a process of its own: this test binary, run again.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

use sandbox_model::SecretValues;
use sandbox_network::{BridgeConfig, Event, bridge};
use sandbox_wire::BootNetwork;
use serde::{Deserialize, Serialize};

use crate::peer::Peer;

const CONFIG: &str = "SANDBOX_TEST_BRIDGE";
/// Where the process writes what its guest does.
const EVENTS: &str = "SANDBOX_TEST_BRIDGE_EVENTS";
/// Through which a process is told other values of secrets.
const VALUES: &str = "values";
const PARENT: &str = "SANDBOX_TEST_BRIDGE_PARENT";

/// What the process says about itself when it is ready.
#[derive(Debug, Serialize, Deserialize)]
pub struct Report {
    pub boot: BootNetwork,
    pub pid: u32,
    /// `/proc/self/status`.
    pub status: String,
}

/// The first line of every case: in the process that a case starts, this never returns.
pub fn serve_if_asked() {
    if std::env::var_os(PARENT).is_some() {
        // Someone whose death the bridge must notice.
        let mut child = again(&std::env::args().collect::<Vec<_>>()[1..]).env_remove(PARENT).spawn().unwrap();
        child.wait().unwrap();
        std::process::exit(0);
    }
    let Ok(config) = std::env::var(CONFIG) else { return };
    let config: BridgeConfig = serde_json::from_str(&config).unwrap();
    let events = std::env::var_os(EVENTS).map(|path| OpenOptions::new().append(true).open(path).unwrap());
    let outcome = bridge(&config, guest_socket(), events, values(), |boot| {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let report = Report { boot: boot.clone(), pid: std::process::id(), status };
        println!("\n{}", serde_json::to_string(&report).unwrap());
    });
    if let Err(error) = &outcome {
        eprintln!("error: {error}");
    }
    std::process::exit(i32::from(outcome.is_err()));
}

/// From the pipe of the directory it runs in; a case that has none writes nothing there.
fn values() -> impl Iterator<Item = SecretValues> + Send {
    let mut orders = None;
    std::iter::from_fn(move || {
        let orders = orders.get_or_insert_with(|| {
            let pipe = std::fs::File::open(VALUES).unwrap();
            serde_json::Deserializer::from_reader(BufReader::new(pipe))
        });
        SecretValues::deserialize(orders).ok()
    })
}

/// Standard input is the socket to the guest.
#[allow(unsafe_code)]
fn guest_socket() -> UnixStream {
    // SAFETY: nothing else in this process uses descriptor 0.
    unsafe { OwnedFd::from_raw_fd(0) }.into()
}

fn again(arguments: &[String]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(arguments);
    command
}

pub struct Bridge {
    child: Child,
    pub report: Report,
    stderr: BufReader<ChildStderr>,
    events: tempfile::NamedTempFile,
    /// Where it runs, and everybody may write.
    pub dir: tempfile::TempDir,
}

fn open_dir() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let open = |path: &Path| std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    let pipe = dir.path().join(VALUES);
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    open(dir.path());
    open(&pipe);
    dir
}

fn spawn(
    case: &str,
    config: &BridgeConfig,
    events: &Path,
    parent: bool,
    roots: Option<&Path>,
    dir: &Path,
) -> (Child, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let arguments = ["--exact", case, "--nocapture", "--test-threads=1"].map(String::from);
    let mut command = again(&arguments);
    command
        .current_dir(dir)
        .env(EVENTS, events)
        .env(CONFIG, serde_json::to_string(config).unwrap())
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if let Some(roots) = roots {
        command.env("SSL_CERT_FILE", roots).env_remove("SSL_CERT_DIR");
    }
    if parent {
        command.env(PARENT, "1");
    }
    (command.spawn().unwrap(), ours)
}

impl Bridge {
    /// Starts a bridge out of the case of this name, and a guest on its card.
    pub fn start(case: &str, config: &BridgeConfig) -> (Self, Peer) {
        Self::start_below(case, config, false)
    }

    /// With `parent`, a process in between.
    pub fn start_below(case: &str, config: &BridgeConfig, parent: bool) -> (Self, Peer) {
        Self::start_trusting(case, config, parent, None)
    }

    /// In a world that trusts the authority in `trusted` (PEM) alone.
    pub fn start_trusting(
        case: &str,
        config: &BridgeConfig,
        parent: bool,
        trusted: Option<&str>,
    ) -> (Self, Peer) {
        let events = tempfile::NamedTempFile::new().unwrap();
        let roots = trusted.map(|pem| {
            use std::os::unix::fs::PermissionsExt;
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), pem).unwrap();
            // Whoever the bridge becomes reads it.
            std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o644)).unwrap();
            file
        });
        let dir = open_dir();
        let trusted = roots.as_ref().map(tempfile::NamedTempFile::path);
        let (mut child, socket) = spawn(case, config, events.path(), parent, trusted, dir.path());
        let out = BufReader::new(child.stdout.take().unwrap());
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let line = out.lines().map_while(Result::ok).find(|line| line.starts_with('{'));
        let Some(line) = line else {
            let mut text = String::new();
            BufReader::new(stderr).read_to_string(&mut text).unwrap();
            panic!("the bridge did not come up: {text}");
        };
        let report: Report = serde_json::from_str(&line).unwrap();
        let peer = Peer::new(socket, config.slot, &report.boot);
        drop(roots);
        (Self { child, report, stderr, events, dir }, peer)
    }

    /// Starts one that fails; what it said.
    pub fn fails(case: &str, config: &BridgeConfig) -> String {
        let events = tempfile::NamedTempFile::new().unwrap();
        let dir = open_dir();
        let (child, _socket) = spawn(case, config, events.path(), false, None, dir.path());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    /// What the guest did so far.
    pub fn events(&self) -> Vec<Event> {
        let text = std::fs::read_to_string(self.events.path()).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Where other values of secrets are written to.
    pub fn values(&self) -> std::fs::File {
        OpenOptions::new().write(true).open(self.dir.path().join(VALUES)).unwrap()
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Has it crash.
    pub fn crash(&mut self) -> std::process::ExitStatus {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::ABORT).unwrap();
        self.child.wait().unwrap()
    }

    /// Closes the guest's end; what the bridge said in its life, and its exit code.
    pub fn end(mut self, guest: Peer) -> (String, Option<i32>) {
        drop(guest);
        let mut text = String::new();
        self.stderr.read_to_string(&mut text).unwrap();
        (text, self.child.wait().unwrap().code())
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

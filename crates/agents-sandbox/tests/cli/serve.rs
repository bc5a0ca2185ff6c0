//! An agent with a server, by a stand-in that speaks as opencode2 does, over local processes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rustix::process::{Pid, Signal, kill_process};

use crate::environment::TestEnvironment;
use crate::terminal::{FULL_SCREEN, assert_clean};
use crate::tmux::Tmux;

/// The stand-in is on the guest's PATH.
fn with_agent() -> TestEnvironment {
    stand_in("opencode2")
}

/// The stand-in on the guest's PATH, under the name of this agent.
pub fn stand_in(agent: &str) -> TestEnvironment {
    let environment = TestEnvironment::new();
    add_stand_in(&environment, agent);
    environment
}

/// Likewise, in a project that is made.
pub fn add_stand_in(environment: &TestEnvironment, agent: &str) {
    let home = environment.run(&["exec", "--agent", agent, "--", "sh", "-c", "echo $HOME"]);
    let home = String::from_utf8(home.raw_stdout).unwrap();
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fake-agent/opencode2");
    symlink(program.canonicalize().unwrap(), environment.path("bin").join(agent)).unwrap();
    let profile = format!(
        "export PATH={}:$PATH STAND_IN_PORTS={} STAND_IN_EVENTS={} STAND_IN_SESSIONS={} STAND_IN_SCREEN={}\n",
        environment.path("bin").display(),
        environment.path("runtime/ports").display(),
        environment.path("events").display(),
        environment.path("sessions.json").display(),
        environment.path("screen").display()
    );
    std::fs::write(Path::new(home.trim()).join(".bash_profile"), profile).unwrap();
}

struct Served {
    child: Child,
    address: SocketAddr,
    password: String,
}

impl Served {
    fn start(environment: &TestEnvironment, stdin: Stdio) -> Self {
        let mut command = environment.command(&["run", "--agent", "opencode2", "--serve-only"]);
        let mut child = command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut value = |key: &str| {
            let line = lines.next().expect("three lines").unwrap();
            let (name, value) = line.split_once(' ').unwrap();
            assert_eq!(name, key);
            value.trim().to_string()
        };
        let address = value("address").strip_prefix("http://").unwrap().parse().unwrap();
        assert_eq!(value("user"), "opencode");
        let password = value("password");
        Self { child, address, password }
    }

    fn ask(&self, login: Option<&str>) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let header = login.map_or(String::new(), |login| {
            format!("authorization: Basic {}\r\n", BASE64_STANDARD.encode(login))
        });
        write!(stream, "GET /api/health HTTP/1.0\r\n{header}\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn tell(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// The exit code, once it has ended.
    fn code(&mut self) -> Option<i32> {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(20) {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("it does not end");
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_words_reach_a_client_of_the_server() {
    let environment = with_agent();
    let ran = environment.run(&["run", "--agent", "opencode2", "--", "two words", "--x"]).success();
    assert_eq!(ran, "stand-in /workspace ['two words', '--x']\n");
}

#[test]
fn the_address_that_is_printed_is_the_servers_and_wants_the_password() {
    let environment = with_agent();
    // As a service manager starts it: nothing on stdin, from the beginning.
    let mut served = Served::start(&environment, Stdio::null());
    assert!(served.address.ip().is_loopback());
    std::thread::sleep(Duration::from_secs(1));
    assert!(served.ask(Some(&format!("opencode:{}", served.password))).contains("stand-in"));
    for stranger in [None, Some("opencode:"), Some("opencode:wrong")] {
        assert!(served.ask(stranger).starts_with("HTTP/1.0 401"), "{stranger:?}");
    }
    served.tell(Signal::TERM);
    assert_eq!(served.code(), Some(0));
    assert!(TcpStream::connect(served.address).is_err(), "nothing listens any more");
}

#[test]
fn ctrl_c_and_the_end_of_a_pipe_end_it() {
    let environment = with_agent();
    let mut served = Served::start(&environment, Stdio::piped());
    drop(served.child.stdin.take());
    assert_eq!(served.code(), Some(0));
    let mut served = Served::start(&environment, Stdio::null());
    served.tell(Signal::INT);
    assert_eq!(served.code(), Some(0));
}

#[test]
fn ctrl_d_ends_it_on_a_terminal() {
    let environment = with_agent();
    let tmux = Tmux::new(&environment);
    tmux.line("$P run --agent opencode2 --serve-only; echo \"code $?\"");
    tmux.wait_for("password");
    tmux.wait_for("Ctrl-D or Ctrl-C ends it");
    tmux.key("C-d");
    tmux.wait_for_line("code 0");
}

#[test]
fn the_detach_key_leaves_an_agent_with_a_server_and_is_any_other_commands_own() {
    let environment = stand_in("opencode");
    let tmux = Tmux::new(&environment);
    tmux.line("$P run; echo \"code $?\"");
    tmux.wait_for_line("attached");
    tmux.key("C-]");
    tmux.wait_for_line("detached; what the agent is at goes on in the sandbox");
    tmux.wait_for_line("code 0");
    environment.write("project/keys", "stty raw -echo; echo ready; head -c 1 | od -An -tx1; stty sane");
    tmux.fresh("$P exec --agent opencode -it -- sh keys; echo \"code $?\"");
    tmux.wait_for("ready");
    tmux.key("C-]");
    tmux.wait_for_line("1d");
    tmux.wait_for_line("code 0");
}

#[test]
fn what_is_said_after_the_detach_key_has_a_line_of_its_own() {
    let environment = stand_in("opencode");
    let tmux = Tmux::new(&environment);
    tmux.fresh("$P run; echo \"code $?\"");
    tmux.wait_for_line("attached");
    tmux.tmux(&["send-keys", "-l", "half a line"]);
    tmux.wait_for_line("half a line");
    tmux.key("C-]");
    tmux.wait_for_line("detached; what the agent is at goes on in the sandbox");
    tmux.wait_for_line("code 0");
}

#[test]
fn the_detach_key_leaves_a_clean_screen() {
    let environment = stand_in("opencode");
    environment.write("screen", FULL_SCREEN);
    let tmux = Tmux::new(&environment);
    tmux.fresh("echo before; $P run; echo \"code $?\"");
    tmux.wait_for("FULL SCREEN");
    tmux.wait_for("attached");
    // The positive control: now the terminal is not clean.
    assert_eq!(tmux.fact("#{alternate_on} #{cursor_flag} #{mouse_any_flag}"), "1 0 1");
    tmux.key("C-]");
    let screen = tmux.wait_for_line("code 0");
    assert!(screen.contains("before") && screen.contains("detached; "), "{screen}");
    assert!(!screen.contains("FULL SCREEN"), "{screen}");
    assert_clean(&tmux);
}

#[test]
fn two_clients_share_one_server_and_leave_one_by_one() {
    let environment = stand_in("opencode");
    let tmux = Tmux::new(&environment);
    let boot = || environment.json(&["sandbox", "inspect"])["boot_id"].clone();
    let held = || environment.json(&["sandbox", "inspect"])["keeper"]["reason"].clone();
    let server = || std::fs::read_to_string("/tmp/opencode-serve.log.pid").unwrap();
    tmux.fresh("$P run; echo \"first: code $?\"");
    tmux.wait_for_line("attached");
    let (first_boot, first_server) = (boot(), server());
    tmux.tmux(&["split-window", "-d", "exec env PS1='shell> ' sh"]);
    tmux.tmux(&["select-pane", "-t", "1"]);
    tmux.wait_for("shell> ");
    tmux.fresh("$P run; echo \"second: code $?\"");
    tmux.wait_for_line("attached");
    assert_eq!(held(), "held by 2 clients");
    assert_eq!((boot(), server()), (first_boot, first_server), "one machine, one server");
    tmux.key("C-]");
    tmux.wait_for_line("second: code 0");
    assert_eq!(held(), "held by 1 client");
    tmux.tmux(&["select-pane", "-t", "0"]);
    let screen = tmux.screen();
    let ended = screen.lines().any(|line| line.starts_with("first: code"));
    assert!(screen.contains("attached") && !ended, "it goes on: {screen}");
    tmux.key("C-]");
    tmux.wait_for_line("first: code 0");
}

#[test]
fn the_server_makes_ready_while_its_client_starts() {
    let environment = stand_in("opencode");
    let noted = environment.path("runtime/ports/warmed-up");
    let tmux = Tmux::new(&environment);
    tmux.fresh("$P run; echo \"code $?\"");
    tmux.wait_for_line("attached");
    tmux.wait("a word of the server", |_| {
        std::fs::read_to_string(&noted).is_ok_and(|directories| directories == "/workspace\n")
    });
    tmux.key("C-]");
    tmux.wait_for_line("code 0");
}

#[test]
fn a_sandbox_that_is_killed_is_said() {
    let environment = with_agent();
    let mut served = Served::start(&environment, Stdio::null());
    environment.run(&["kill", "--agent", "opencode2"]).success();
    assert_eq!(served.code(), Some(1));
}

#[test]
fn an_agent_without_a_server_is_refused() {
    let environment = TestEnvironment::new();
    for words in [&["run", "--agent", "pi", "-s"][..], &["run", "--agent", "claude-code", "-w", "fix"]] {
        let ran = environment.run(words);
        assert_eq!(ran.code, Some(1), "{ran}");
        assert!(ran.stderr.contains("needs an agent with a server, and "), "{ran}");
    }
    let ran = environment.run(&["run", "-w", "Fix It"]);
    assert_eq!(ran.code, Some(2), "{ran}");
    assert!(ran.stderr.contains("is not the name of a worktree"), "{ran}");
    assert!(!environment.run(&["list"]).to_string().contains("project-"), "nothing was started");
}

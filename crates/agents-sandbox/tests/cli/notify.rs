//! What a desktop is told, over a session bus of the test's own with a stand-in for the desktop on it.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::environment::TestEnvironment;
use crate::serve::stand_in;
use crate::tmux::Tmux;

/// One event of the stand-in's server.
fn happens(environment: &TestEnvironment, kind: &str, session: &str, rest: &Value) {
    let mut properties = json!({ "sessionID": session });
    properties.as_object_mut().unwrap().extend(rest.as_object().cloned().unwrap_or_default());
    let event = json!({ "directory": "/workspace", "payload": { "type": kind, "properties": properties } });
    let mut file = fs::OpenOptions::new().append(true).open(environment.path("events")).unwrap();
    writeln!(file, "{event}").unwrap();
}

/// An agent whose server tells nothing yet.
fn silent() -> TestEnvironment {
    let environment = stand_in("opencode");
    environment.write("events", "");
    environment
}

struct Desktop<'a> {
    environment: &'a TestEnvironment,
    address: String,
    children: Vec<Child>,
}

impl<'a> Desktop<'a> {
    fn start(environment: &'a TestEnvironment) -> Self {
        // Ended at once, it leaves its socket behind: in the environment's folder.
        let socket = format!("--address=unix:path={}", environment.path("bus").display());
        let mut bus = Command::new("dbus-daemon")
            .args(["--session", "--nofork", "--print-address=1", &socket])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("dbus-daemon");
        let mut address = String::new();
        BufReader::new(bus.stdout.take().unwrap()).read_line(&mut address).unwrap();
        let mut desktop = Self { environment, address: address.trim().into(), children: vec![bus] };
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fake-agent/notifications");
        let child = Command::new(program)
            .arg(environment.path("told"))
            .env("DBUS_SESSION_BUS_ADDRESS", &desktop.address)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        desktop.children.push(child);
        desktop.wait("the stand-in", || environment.path("told").exists());
        desktop
    }

    fn client(&mut self) {
        let mut command = self.environment.command(&["run", "--notify=desktop"]);
        command.env("DBUS_SESSION_BUS_ADDRESS", &self.address);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "attached\n");
        self.children.push(child);
    }

    fn happens(&self, kind: &str, session: &str, rest: &Value) {
        happens(self.environment, kind, session, rest);
    }

    fn told(&self) -> Vec<String> {
        let text = fs::read_to_string(self.environment.path("told")).unwrap();
        text.lines().map(ToString::to_string).collect()
    }

    #[track_caller]
    fn wait(&self, what: &str, reached: impl Fn() -> bool) {
        let begun = Instant::now();
        while !reached() {
            assert!(begun.elapsed() < Duration::from_secs(30), "{what} does not come: {:?}", self.told());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Desktop<'_> {
    fn drop(&mut self) {
        for child in self.children.iter_mut().rev() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn each_thing_is_told_once_however_many_clients_there_are() {
    let environment = silent();
    let mut desktop = Desktop::start(&environment);
    desktop.client();
    desktop.client();
    // Each thing is for both of them to tell.
    let listening = || fs::read_to_string(environment.path("runtime/ports/listening")).unwrap_or_default();
    desktop.wait("a second listener", || listening().lines().count() == 2);
    let busy = json!({ "status": { "type": "busy" } });
    desktop.happens("session.status", "ses_1", &busy);
    desktop.happens("question.asked", "ses_1", &json!({}));
    desktop.wait("the question", || desktop.told().len() == 1);
    desktop.happens("question.replied", "ses_1", &json!({}));
    desktop.happens("session.idle", "ses_1", &json!({}));
    desktop.wait("the end", || desktop.told().len() == 2);
    desktop.happens("session.status", "ses_2", &busy);
    desktop.happens("session.error", "ses_2", &json!({ "error": { "name": "UnknownError" } }));
    desktop.wait("the error", || desktop.told().len() == 3);
    // The last word of all: whatever would have been told twice is told by now.
    desktop.happens("session.status", "ses_1", &busy);
    desktop.happens("permission.asked", "ses_1", &json!({}));
    desktop.wait("the permission", || desktop.told().len() >= 4);
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(
        desktop.told(),
        [
            "agents-sandbox: opencode waits for you (project) urgency 2",
            "agents-sandbox: opencode is done (project) urgency 1",
            "agents-sandbox: opencode has failed (project) urgency 1",
            "agents-sandbox: opencode waits for you (project) urgency 2",
        ]
    );
}

const INPUT: (&str, &str, &str) = ("question.asked", "{}", "waits for you (project) urgency 2");
const DONE: (&str, &str, &str) = ("session.idle", "{}", "is done (project) urgency 1");
const ERROR: (&str, &str, &str) =
    ("session.error", "{\"error\": {\"name\": \"X\"}}", "has failed (project) urgency 1");

/// What a client tells it tells in the order in which it happens: when the last is told, nothing comes any more.
#[test]
fn only_what_is_wanted_is_told() {
    for (wishes, unwanted, wanted) in [
        ("on-input: false, on-error: false", &[INPUT, ERROR][..], &[DONE][..]),
        ("on-done: false", &[DONE], &[ERROR, INPUT]),
    ] {
        let environment = silent();
        environment.write("home/config/agents-sandbox/config.yaml", &format!("notify: {{{wishes}}}\n"));
        let mut desktop = Desktop::start(&environment);
        desktop.client();
        for (number, (kind, rest, _)) in unwanted.iter().chain(wanted).enumerate() {
            desktop.happens(kind, &format!("ses_{number}"), &serde_json::from_str(rest).unwrap());
        }
        desktop.wait("what is wanted", || desktop.told().len() >= wanted.len());
        let expected: Vec<_> =
            wanted.iter().map(|(.., told)| format!("agents-sandbox: opencode {told}")).collect();
        assert_eq!(desktop.told(), expected, "{wishes}");
    }
}

/// A terminal with an agent in its first window, which nobody looks at.
fn unseen<'a>(environment: &'a TestEnvironment, words: &str) -> Tmux<'a> {
    let tmux = Tmux::new(environment);
    tmux.fresh(words);
    tmux.wait_for_line("attached");
    tmux.tmux(&["new-window", "sleep 1000"]);
    tmux
}

fn bell(tmux: &Tmux<'_>) -> String {
    tmux.tmux(&["display-message", "-p", "-t", "main:0", "#{window_bell_flag}"]).trim().into()
}

#[test]
fn the_bell_rings_in_the_terminal_of_the_agent() {
    let environment = silent();
    let tmux = unseen(&environment, "$P run --notify=bell");
    assert_eq!(bell(&tmux), "0");
    happens(&environment, "question.asked", "ses_1", &json!({}));
    tmux.wait("the bell", |_| bell(&tmux) == "1");
}

#[test]
fn a_sound_is_played_by_whatever_can_and_is_a_bell_where_nothing_can() {
    let environment = silent();
    // Each of them is there, so that none of the machine's is asked.
    let players = ["canberra-gtk-play", "pw-play", "paplay", "ogg123"];
    for player in players {
        let text = format!(
            "#!/bin/sh\ntest -e $ROOT/{player}.works; code=$?; echo {player} \"$*\" >> $ROOT/asked; exit $code\n"
        );
        let root = environment.path("");
        let path =
            environment.write(&format!("players/{player}"), &text.replace("$ROOT/", &root.to_string_lossy()));
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let asked = || fs::read_to_string(environment.path("asked")).unwrap_or_default();
    let tmux = unseen(&environment, "PATH=../players:$PATH $P run --notify=sound");
    let sound = "/usr/share/sounds/freedesktop/stereo/message.oga";
    environment.write("paplay.works", "");
    happens(&environment, "question.asked", "ses_1", &json!({}));
    let until_paplay = format!("canberra-gtk-play --id=message\npw-play {sound}\npaplay {sound}\n");
    tmux.wait("a sound", |_| asked() == until_paplay);
    fs::remove_file(environment.path("paplay.works")).unwrap();
    happens(&environment, "question.asked", "ses_2", &json!({}));
    tmux.wait("the bell", |_| bell(&tmux) == "1");
    assert_eq!(asked(), format!("{until_paplay}{until_paplay}ogg123 {sound}\n"), "only then");
}

#[test]
fn an_agent_that_tells_nothing_is_refused_when_typed_and_remarked_on_when_set() {
    let environment = TestEnvironment::new();
    let ran = environment.run(&["run", "--agent", "pi", "--notify"]);
    assert_eq!(ran.code, Some(1), "{ran}");
    assert!(ran.stderr.contains("pi does not tell what its sessions do"), "{ran}");
    environment.write("project/.agents-sandbox/config.yaml", "notify: {desktop: true}\n");
    let ran = environment.run(&["run", "--agent", "pi", "--dry-run"]);
    assert_eq!(ran.code, Some(0), "{ran}");
    assert!(ran.stderr.contains("warning: pi does not tell"), "{ran}");
}

//! `network log`: what a sandbox tried to reach, and what the first command in it ends with.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::environment::{Ran, TestEnvironment};
use crate::steps::with_agent;

/// Long past, so that the table shows the day.
const AT: u64 = 1_700_000_000_000;

fn event(verdict: &str, kind: &str, name: Option<&str>, address: Option<&str>, opens: Option<&str>) -> Value {
    let rule =
        if verdict == "allowed" { "egress-allow has `api.example.com`" } else { "outside of profile none" };
    json!({
        "at": AT, "verdict": verdict, "kind": kind, "name": name, "address": address, "rule": rule, "opens": opens,
    })
}

fn name_denied(name: &str) -> Value {
    event("denied", "name", Some(name), None, Some(name))
}

/// The log of the project's only sandbox.
fn log(environment: &TestEnvironment) -> PathBuf {
    environment.path("runtime/sandboxes").join(environment.sandbox()).join("network.log")
}

/// A sandbox at rest, which tried these.
fn tried(lines: &[String]) -> TestEnvironment {
    let environment = TestEnvironment::new();
    environment.run(&["exec", "true"]).success();
    environment.run(&["stop", "--cold"]).success();
    std::fs::write(log(&environment), lines.join("\n") + "\n").unwrap();
    environment
}

#[test]
fn what_was_tried_is_shown_as_a_table_and_as_json() {
    let environment = TestEnvironment::new();
    let nothing = environment.run(&["network", "log"]);
    assert!(nothing.code == Some(1) && nothing.stderr.contains("there is no sandbox"), "{nothing}");
    environment.run(&["exec", "true"]).success();
    let quiet = environment.run(&["network", "log"]);
    assert!(quiet.stderr.contains("nothing was tried yet") && quiet.stdout.is_empty(), "{quiet}");
    assert_eq!(environment.json(&["network", "log", "--format", "json"]), json!([]));

    let events = [
        event("allowed", "tcp", Some("api.example.com"), Some("192.0.2.1:443"), None),
        name_denied("other.example"),
        event("failed", "udp", None, Some("192.0.2.2:123"), None),
        event("denied", "ping", None, Some("192.0.2.3"), Some("192.0.2.3")),
        event(
            "denied",
            "http",
            Some("\u{1b}[2Jevil$(id)"),
            Some("192.0.2.1:80"),
            Some("\u{1b}[2Jevil$(id):80"),
        ),
    ];
    let mut lines: Vec<String> = events.iter().map(Value::to_string).collect();
    // The machine went down in the middle of a line, and the next began where that one ended.
    lines.insert(2, lines[0][..40].into());
    lines.insert(3, format!("{}{}", &lines[0][..30], lines[0]));
    lines.insert(4, "\u{0}\u{0}\u{0}".into());
    lines.insert(5, json!({"at": "a later version", "verdict": "shrugged"}).to_string());
    let text = lines.join("\n") + "\n";
    std::fs::write(log(&environment), text + "{\"at\": half").unwrap();

    assert_eq!(environment.json(&["network", "log", "--format", "json"]), json!(events));
    assert_snapshot!(environment.run(&["network", "log"]).success(), @"
    TIME                 VERDICT  KIND  DESTINATION                      WHY
    2023-11-14 22:13:20  allowed  tcp   api.example.com (192.0.2.1:443)  egress-allow has `api.example.com`
    2023-11-14 22:13:20  denied   name  other.example                    outside of profile none; `network allow other.example` opens it
    2023-11-14 22:13:20  failed   udp   192.0.2.2:123                    outside of profile none
    2023-11-14 22:13:20  denied   ping  192.0.2.3                        outside of profile none; `network allow 192.0.2.3` opens it
    2023-11-14 22:13:20  denied   http  evil$(id) (192.0.2.1:80)         outside of profile none
    ");
    let denied = environment.json(&["network", "log", "--denied", "--format", "json"]);
    assert_eq!(denied, json!(&events[1..]), "what failed was not reached either");
    let table = environment.run(&["network", "log", "--denied"]).success();
    assert!(!table.contains("allowed") && table.contains("other.example"), "{table}");
    assert!(!table.contains('\u{1b}'), "{table}");
    // Under its own name, from anywhere.
    let name = environment.sandbox();
    let mut elsewhere = environment.command(&["network", "log", &name]);
    let elsewhere = environment.finish(elsewhere.current_dir(environment.path("home"))).success();
    assert!(elsewhere.contains("other.example"), "{elsewhere}");
}

/// `network log -f`, until it is dropped.
struct Following {
    child: Child,
    lines: Receiver<String>,
}

impl Following {
    fn start(environment: &TestEnvironment, words: &[&str]) -> Self {
        let mut command = environment.command(&[&["network", "log", "-f"][..], words].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (seen, lines) = channel();
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                let _ = seen.send(line);
            }
        });
        Self { child, lines }
    }

    #[track_caller]
    fn next(&self) -> String {
        self.lines.recv_timeout(Duration::from_mins(1)).expect("nothing is shown")
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn following_shows_each_line_that_is_written_meanwhile() {
    let first = name_denied("first.example").to_string();
    let environment = tried(&[first, event("allowed", "tcp", None, Some("192.0.2.1:443"), None).to_string()]);
    let all = Following::start(&environment, &[]);
    let denied = Following::start(&environment, &["--denied"]);
    for following in [&all, &denied] {
        assert!(following.next().starts_with("TIME"));
        assert!(following.next().contains("first.example"));
    }
    assert!(all.next().contains("192.0.2.1:443"));
    let mut file = std::fs::OpenOptions::new().append(true).open(log(&environment)).unwrap();
    let later = event("allowed", "tcp", None, Some("192.0.2.4:443"), None).to_string();
    // In two pieces, as one who looks at the wrong moment finds it.
    file.write_all(&later.as_bytes()[..50]).unwrap();
    file.write_all(format!("{}\n", &later[50..]).as_bytes()).unwrap();
    assert!(all.next().contains("192.0.2.4:443"));
    writeln!(file, "damaged\n{}", name_denied("second.example")).unwrap();
    for following in [&all, &denied] {
        let line = following.next();
        assert!(line.contains("second.example") && line.contains("`network allow second.example`"), "{line}");
    }
    // A log that grew too long begins anew.
    std::fs::write(log(&environment), format!("{}\n", name_denied("third.example"))).unwrap();
    assert!(all.next().contains("third.example") && denied.next().contains("third.example"));
}

/// What is said of refusals in a first run, and to its end.
fn summary(ran: &Ran) -> Vec<&str> {
    ran.stderr.lines().skip_while(|line| !line.contains("in this first run")).collect()
}

#[test]
fn whichever_command_is_the_first_ends_with_what_was_refused() {
    // As the guest's connections would, through the sandbox's own bridge.
    let script = |environment: &TestEnvironment| {
        let folder = environment.path("runtime/sandboxes");
        let lines = [name_denied("a.example"), name_denied("a.example"), name_denied("b.example")];
        let echoes = lines.map(|line| format!("echo '{line}' >> network.log")).join("\n");
        format!("cd {}/*/\n{echoes}\n", folder.display())
    };
    let told = [
        "the network refused 2 things in this first run:",
        "  a.example, 2 times: `agents-sandbox network allow a.example` opens it",
        "  b.example: `agents-sandbox network allow b.example` opens it",
        "`agents-sandbox network log` shows all of it",
    ];

    let environment = TestEnvironment::new();
    let words = ["exec", "--", "sh", "-c", &format!("{}exit 3", script(&environment))];
    let exec = environment.run(&words);
    assert_eq!((exec.code, summary(&exec)), (Some(3), told.to_vec()), "{exec}");
    let second = environment.run(&words);
    assert_eq!((second.code, summary(&second)), (Some(3), Vec::new()), "{second}");
    let muted = TestEnvironment::new();
    let words = ["--log-level", "error", "exec", "--", "sh", "-c", &script(&muted)];
    assert_eq!(muted.run(&words).stderr, "");

    let environment = TestEnvironment::new();
    let mut shell = environment.command(&["shell"]);
    shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut shell = shell.spawn().unwrap();
    shell.stdin.take().unwrap().write_all(script(&environment).as_bytes()).unwrap();
    let output = shell.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.ends_with(&format!("{}\n", told.join("\n"))), "{said}");
    let again = environment.run(&["shell"]);
    assert!(summary(&again).is_empty(), "{again}");

    let environment = TestEnvironment::new();
    with_agent(&environment);
    environment.run(&["sandbox", "remove", "--force", &environment.sandbox()]).success();
    let agent = environment.write("bin/pi", &format!("#!/bin/sh\n{}", script(&environment)));
    std::fs::set_permissions(agent, std::fs::Permissions::from_mode(0o755)).unwrap();
    let run = environment.run(&["run", "--agent", "pi"]);
    let log = "`agents-sandbox network log --agent pi` shows all of it";
    let told = [&told[..3], &[log]].concat();
    assert_eq!((run.code, summary(&run)), (Some(0), told), "{run}");
    assert!(run.stderr.contains("`agents-sandbox network log --agent pi` shows what is refused"), "{run}");
    let later = |environment: &TestEnvironment| {
        let ran = environment.run(&["run", "--agent", "pi"]);
        assert_eq!((ran.code, summary(&ran)), (Some(0), Vec::new()), "{ran}");
        ran.stderr
            .lines()
            .filter(|line| line.contains("the network refused"))
            .map(String::from)
            .collect::<Vec<_>>()
    };
    assert_eq!(later(&environment), [""; 0], "nothing that was not told");
    let also = script(&environment).replace("b.example", "c.example");
    environment.write("bin/pi", &format!("#!/bin/sh\n{also}"));
    let new =
        "the network refused c.example for the first time; `agents-sandbox network log --agent pi` says why";
    assert_eq!(later(&environment), [new]);
    assert_eq!(later(&environment), [""; 0], "each is told once");
}

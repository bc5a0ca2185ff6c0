//! Saved memory, and programs that run on their own, are lost only by a yes.

use std::net::TcpListener;

use insta::assert_snapshot;
use serde_json::Value;

use crate::environment::{TestEnvironment, without_hash};
use crate::tmux::Tmux;

const APPLY: &str = "-opencode` the next run applies it";

pub fn background(environment: &TestEnvironment) {
    let script = "(while :; do date +%s%N > beat; sleep 0.05; done) > /dev/null 2>&1 & echo $! > beat.pid";
    environment.run(&["exec", "--", "sh", "-c", script]).success();
    beats(environment, true);
}

/// The program in the background goes on, or is gone.
#[track_caller]
pub fn beats(environment: &TestEnvironment, expected: bool) {
    let read = || std::fs::read(environment.project().join("beat")).unwrap_or_default();
    let before = read();
    let begun = std::time::Instant::now();
    let changed = loop {
        if read() != before {
            break true;
        }
        if begun.elapsed() > std::time::Duration::from_secs(if expected { 20 } else { 1 }) {
            break false;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    assert_eq!(changed, expected);
}

pub fn memory(environment: &TestEnvironment) -> Value {
    environment.json(&["list", "--format", "json"])[0]["saved_memory"].clone()
}

pub fn asleep() -> TestEnvironment {
    let environment = TestEnvironment::new();
    background(&environment);
    environment.run(&["stop"]).success();
    assert_ne!(memory(&environment), Value::Null);
    environment
}

#[test]
fn without_a_terminal_a_sleeping_sandbox_wakes_as_it_was_and_says_what_applies_the_change() {
    let environment = asleep();
    for change in [["--network", "public"], ["--disk-size", "5G"], ["--cpus", "1"]] {
        let ran = environment.run(&[&["shell"][..], &change].concat());
        let line = format!("wakes as it was; changed since: {}", change[0].trim_start_matches('-'));
        assert!(ran.stderr.contains(&line) && ran.stderr.contains(APPLY), "{change:?}: {ran}");
        assert!(ran.stderr.contains("after `agents-sandbox stop --cold project-"), "{change:?}: {ran}");
        assert!(!ran.stderr.contains("dropped"), "{ran}");
        beats(&environment, true);
        environment.run(&["stop"]).success();
    }
    let cold = environment.run(&["stop", "--cold"]);
    assert!(cold.stderr.contains("is not running any more; its saved memory ("), "{cold}");
    let ran = environment.run(&["shell", "--network", "public"]);
    assert!(!ran.stderr.contains("as it was; changed") && ran.code == Some(0), "{ran}");
    beats(&environment, false);
    assert_eq!(environment.json(&["sandbox", "inspect"])["spec"]["network"]["profile"], "public");
}

#[test]
fn a_program_in_the_background_is_not_ended_by_a_change_before_it_sleeps() {
    let environment = TestEnvironment::new();
    background(&environment);
    let ran = environment.run(&["shell", "--network", "public"]);
    let line = "the sandbox is not asleep yet, and keeps running as it is with whatever runs in it; changed since: network";
    assert!(ran.stderr.contains(line) && ran.stderr.contains(APPLY), "{ran}");
    beats(&environment, true);
    // Where nothing would go to sleep, nothing is lost that would have stayed.
    environment.run(&["stop", "--cold"]).success();
    environment.write("home/config/agents-sandbox/config.yaml", "auto-stop: stop\n");
    environment.run(&["exec", "true"]).success();
    let ran = environment.run(&["shell", "--network", "public"]);
    assert!(!ran.stderr.contains("keeps running") && ran.code == Some(0), "{ran}");
    assert_eq!(environment.json(&["sandbox", "inspect"])["spec"]["network"]["profile"], "public");
}

#[test]
fn a_person_chooses_what_becomes_of_saved_memory() {
    let environment = asleep();
    let tmux = Tmux::new(&environment);
    tmux.fresh("$P shell --network public; echo \"code $?\"");
    let screen = tmux.wait_for("wake, apply or quit?");
    assert!(screen.contains("network: none → public") && screen.contains("its memory is saved"), "{screen}");
    // Of the provider's list only what goes, and that it goes.
    let list = screen.lines().find(|line| line.contains("egress-allow: ")).unwrap_or_default();
    assert!(list.contains("egress-allow: removed ") && !list.contains('→'), "{screen}");
    tmux.line("quit");
    tmux.wait_for_line("code 1");
    assert_ne!(memory(&environment), Value::Null, "nothing was changed");
    tmux.fresh("$P shell --network public");
    tmux.wait_for("wake, apply or quit?");
    tmux.key("Enter");
    tmux.line("echo in the $((40 + 2))nd; exit");
    tmux.wait_for("in the 42nd");
    beats(&environment, true);
    environment.run(&["stop"]).success();
    tmux.fresh("$P shell --network public");
    tmux.wait_for("wake, apply or quit?");
    tmux.line("apply");
    tmux.line("echo in the $((40 + 3))rd; exit");
    let screen = tmux.wait_for("in the 43rd");
    assert!(screen.contains("is dropped"), "{screen}");
    beats(&environment, false);
}

#[test]
fn a_port_that_another_program_has_is_found_before_anything_is_lost() {
    let environment = asleep();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = format!("{}:80", other.local_addr().unwrap().port());
    // The user's yes, as a program's settings have it: a rebuild is a wish for another sandbox.
    let words = ["shell", "--rebuild", "--publish", &port];
    let ran = environment.run(&words);
    let address = other.local_addr().unwrap().to_string();
    let text = without_hash(&ran.to_string()).replace(&address, "ADDRESS");
    // The other program is this one.
    let name = std::fs::read_to_string("/proc/self/comm").unwrap();
    let text = text.replace(&format!("`{}`", name.trim()), "`NAME`");
    let text = text.replace(&std::process::id().to_string(), "PID");
    assert_snapshot!(text, @"
    error: port ADDRESS cannot be published: `NAME` (process PID) has it
    hint: end it (`kill PID`), or take another: `agents-sandbox ports add HOST:GUEST`, `agents-sandbox run -p HOST:GUEST`, or the setting `ports`
    [exit 1]
    ");
    assert_ne!(memory(&environment), Value::Null);
    drop(other);
    let ran = environment.run(&words);
    // Another port is no reason to lose it.
    assert!(ran.code == Some(0) && !ran.stderr.contains("is dropped"), "{ran}");
}

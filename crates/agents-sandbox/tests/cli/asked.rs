//! Nobody waits for a person who is asked, and an answer counts for what was asked about.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use sandbox_state::{Lock, LockMode};
use serde_json::Value;

use crate::environment::TestEnvironment;
use crate::kept::{asleep, beats, memory};
use crate::questions::{another_image, client, used};
use crate::tmux::Tmux;

const RUNNING: &str = "keep, proceed or quit?";
const ASLEEP: &str = "wake, apply or quit?";
const NOTHING_LEFT: &str = "there is nothing left to keep, so the sandbox starts with what changed";

fn end(mut client: Child) {
    client.kill().unwrap();
    client.wait().unwrap();
}

/// Ends the shell that the question stood before, once it is there.
fn leave_shell(tmux: &Tmux<'_>) -> String {
    tmux.line("echo in the $((40 + 2))nd; exit");
    tmux.wait_for("in the 42nd")
}

#[track_caller]
fn stop(environment: &TestEnvironment, words: &[&str], said: &str) {
    let ran = environment.run_at_once(&[&["stop"][..], words].concat());
    assert!(ran.code == Some(0) && ran.stderr.contains(said), "{ran}");
}

#[test]
fn one_that_runs_is_stopped_meanwhile_and_to_keep_it_is_to_wake_it() {
    let environment = TestEnvironment::new();
    let client = used(&environment);
    let tmux = Tmux::new(&environment);
    tmux.fresh("$P shell --tmp-size 1G");
    tmux.wait_for(RUNNING);
    stop(&environment, &[], "is stopped, its memory is saved");
    tmux.key("Enter");
    let screen = leave_shell(&tmux);
    assert!(screen.contains("and wakes as it was; changed since: tmp-size"), "{screen}");
    assert!(!screen.contains("others use the sandbox"), "{screen}");
    end(client);
}

#[test]
fn to_keep_it_is_to_wake_it_also_where_another_image_was_wished_for() {
    let environment = TestEnvironment::new();
    let client = used(&environment);
    let image = || environment.json(&["sandbox", "inspect"])["spec"]["image_digest"].clone();
    let before = image();
    another_image(&environment);
    let tmux = Tmux::new(&environment);
    tmux.fresh("$P shell --rebuild");
    tmux.wait_for(RUNNING);
    stop(&environment, &[], "is stopped, its memory is saved");
    tmux.key("Enter");
    let screen = leave_shell(&tmux);
    assert!(screen.contains("and wakes as it was; changed since: image"), "{screen}");
    assert_eq!(image(), before);
    end(client);
}

#[test]
fn one_that_fell_asleep_by_itself_meanwhile_is_woken_and_nothing_else_is_said() {
    let environment = TestEnvironment::new();
    environment.write("home/config/agents-sandbox/config.yaml", "auto-stop-timeout: 200ms\n");
    let client = used(&environment);
    let tmux = Tmux::new(&environment);
    tmux.fresh("$P shell --tmp-size 1G");
    tmux.wait_for(RUNNING);
    end(client);
    let begun = Instant::now();
    while memory(&environment) == Value::Null {
        assert!(begun.elapsed() < Duration::from_secs(20), "it does not fall asleep");
        std::thread::sleep(Duration::from_millis(50));
    }
    tmux.key("Enter");
    let screen = leave_shell(&tmux);
    assert!(screen.contains("and wakes as it was; changed since: tmp-size"), "{screen}");
    assert!(!screen.contains("others use the sandbox"), "{screen}");
}

#[test]
fn one_whose_memory_is_dropped_meanwhile_starts_with_what_changed_and_says_so() {
    let environment = asleep();
    let tmux = Tmux::new(&environment);
    tmux.fresh("$P shell --network public");
    tmux.wait_for(ASLEEP);
    stop(&environment, &["--cold"], "its saved memory (");
    tmux.key("Enter");
    let screen = leave_shell(&tmux);
    assert!(screen.contains(NOTHING_LEFT) && !screen.contains("wakes as it was"), "{screen}");
    assert_eq!(environment.json(&["sandbox", "inspect"])["spec"]["network"]["profile"], "public");
}

#[test]
fn a_yes_to_losing_what_sleeps_is_none_to_losing_what_runs_by_then() {
    let environment = asleep();
    let tmux = Tmux::new(&environment);
    tmux.fresh("$P shell --network public; echo \"code $?\"");
    tmux.wait_for(ASLEEP);
    environment.run_at_once(&["exec", "true"]).success();
    let client = client(&environment);
    tmux.line("apply");
    let screen = tmux.wait_for(RUNNING);
    assert!(screen.contains("you are asked anew") && screen.contains("held by 1 client"), "{screen}");
    tmux.line("quit");
    tmux.wait_for_line("code 1");
    beats(&environment, true);
    end(client);
}

#[test]
fn a_yes_to_cutting_one_off_is_none_to_cutting_off_whoever_came_since() {
    let environment = TestEnvironment::new();
    let first = used(&environment);
    let boot = || environment.json(&["sandbox", "inspect"])["boot_id"].clone();
    let before = boot();
    let tmux = Tmux::new(&environment);
    tmux.fresh("$P shell --tmp-size 1G");
    tmux.wait_for("held by 1 client");
    tmux.wait_for(RUNNING);
    let second = client(&environment);
    tmux.line("proceed");
    tmux.wait_for_question("held by 2 clients", RUNNING);
    assert_eq!(boot(), before);
    tmux.line("proceed");
    leave_shell(&tmux);
    assert_ne!(boot(), before, "now it was said of both");
    for mut client in [first, second] {
        assert!(!client.wait().unwrap().success());
    }
}

#[test]
fn a_home_is_decided_on_while_others_take_their_turn() {
    let environment = TestEnvironment::new();
    environment.rested(0);
    another_image(&environment);
    let tmux = Tmux::new(&environment);
    tmux.fresh("$P shell");
    tmux.wait_for("keep, reset, migrate or quit?");
    stop(&environment, &[], "is not running");
    tmux.line("reset");
    leave_shell(&tmux);
    assert_eq!(environment.volumes().len(), 2);
}

#[test]
fn a_sandbox_is_stopped_while_somebody_is_asked_about_its_home() {
    let environment = TestEnvironment::new();
    let client = used(&environment);
    let tmux = Tmux::new(&environment);
    tmux.fresh("$P volume migrate; echo \"code $?\"");
    tmux.wait_for(RUNNING);
    stop(&environment, &["--cold"], " is stopped");
    // Whoever keeps what is there gets no other home for it.
    tmux.key("Enter");
    let screen = tmux.wait_for_line("code 1");
    assert!(screen.contains("nothing was changed") && !screen.contains("is running and writes"), "{screen}");
    assert_eq!(environment.volumes().len(), 1);
    end(client);
    let client = used(&environment);
    tmux.fresh("$P volume migrate; echo \"code $?\"");
    tmux.wait_for(RUNNING);
    stop(&environment, &["--cold"], " is stopped");
    tmux.line("proceed");
    let screen = tmux.wait_for_line("code 0");
    assert!(screen.contains("is the home volume from the next run on"), "{screen}");
    assert_eq!(environment.volumes().len(), 2);
    end(client);
}

#[test]
fn a_command_that_waits_says_for_whom_and_for_what() {
    let environment = TestEnvironment::new();
    environment.run(&["exec", "true"]).success();
    let name = environment.sandbox();
    let checkout = name.strip_suffix("-opencode").unwrap();
    let path = environment.path(&format!("home/state/agents-sandbox/locks/{checkout}/opencode.lock"));
    let lock = Lock::take(&path, LockMode::Exclusive, "run", |_| {}).unwrap();
    let mut stopping = environment.command(&["stop"]).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(stopping.stderr.take().unwrap()).lines();
    let waits = lines.find(|line| line.as_ref().is_ok_and(|line| line.starts_with("waiting for "))).unwrap();
    let me = std::process::id();
    assert_eq!(waits.unwrap(), format!("waiting for process {me} (run) to let go of sandbox {name} …"));
    drop(lock);
    assert!(stopping.wait().unwrap().success());
}

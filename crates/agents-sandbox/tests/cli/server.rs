//! A server whose configuration changed starts again only where that cuts nobody off, or by a yes. One that cannot
//! start says why.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::environment::TestEnvironment;
use crate::serve::stand_in;
use crate::tmux::Tmux;

/// A client of the agent, attached.
struct Client(Child);

impl Client {
    fn attach(environment: &TestEnvironment) -> Self {
        let mut command = environment.command(&["run"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "attached\n");
        Self(child)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

fn record_path(environment: &TestEnvironment) -> PathBuf {
    let state = environment.path("home/state/agents-sandbox");
    let name = environment.sandbox();
    state.join(name.strip_suffix("-opencode").unwrap()).join("opencode/daemon.json")
}

fn record(environment: &TestEnvironment) -> Value {
    serde_json::from_slice(&std::fs::read(record_path(environment)).unwrap()).unwrap()
}

/// What tells one start of the server from the next.
fn server(environment: &TestEnvironment) -> Value {
    record(environment)["password"].clone()
}

fn configure(environment: &TestEnvironment, text: &str) {
    environment.write("home/config/agents-sandbox/opencode/agent/review.md", text);
}

/// What the agent's home has, read past the program, which would copy what changed.
struct Home(PathBuf);

impl Home {
    fn of(environment: &TestEnvironment) -> Self {
        let ran = environment.run(&["exec", "--", "sh", "-c", "echo $HOME"]);
        Self(String::from_utf8(ran.raw_stdout).unwrap().trim().into())
    }

    fn configured(&self) -> String {
        std::fs::read_to_string(self.0.join(".config/opencode/agent/review.md")).unwrap()
    }
}

const LATER: &str = "it reads the new configuration when it next starts";

#[test]
fn other_clients_keep_the_server_without_a_terminal_and_a_person_is_asked() {
    let environment = stand_in("opencode");
    let client = Client::attach(&environment);
    let (first, home) = (server(&environment), Home::of(&environment));
    configure(&environment, "one");
    let ran = environment.run(&["run"]);
    assert!(ran.stderr.contains(LATER) && ran.stdout == "attached\n", "{ran}");
    assert_eq!((server(&environment), home.configured()), (first.clone(), "one".into()));
    // Another verb than the agent's own never asks.
    configure(&environment, "two");
    let tmux = Tmux::new(&environment);
    tmux.fresh("$P shell; echo \"code $?\"");
    tmux.line("exit");
    tmux.wait_for_line("code 0");
    configure(&environment, "three");
    tmux.fresh("$P run; echo \"code $?\"");
    let screen = tmux.wait_for("keep, restart or quit?");
    assert!(screen.contains("used by another client"), "{screen}");
    tmux.line("quit");
    tmux.wait_for_line("code 1");
    tmux.wait_for("nothing was changed");
    assert_eq!((server(&environment), home.configured()), (first.clone(), "two".into()));
    tmux.fresh("$P run; echo \"code $?\"");
    tmux.wait_for("keep, restart or quit?");
    tmux.key("Enter");
    tmux.wait_for_line("attached");
    assert_eq!((server(&environment), home.configured()), (first.clone(), "three".into()));
    tmux.key("C-d");
    tmux.wait_for_line("code 0");
    configure(&environment, "four");
    tmux.fresh("$P run; echo \"code $?\"");
    tmux.wait_for("keep, restart or quit?");
    tmux.line("restart");
    tmux.wait_for_line("attached");
    assert_ne!(server(&environment), first);
    tmux.key("C-d");
    tmux.wait_for_line("code 0");
    drop(client);
}

#[test]
fn a_sandbox_that_is_stopped_while_somebody_is_asked_about_its_server_is_said_to_be() {
    let environment = stand_in("opencode");
    let client = Client::attach(&environment);
    configure(&environment, "one");
    let tmux = Tmux::new(&environment);
    tmux.fresh("$P run; echo \"code $?\"");
    tmux.wait_for("keep, restart or quit?");
    let stopped = environment.run_at_once(&["stop", "--cold"]);
    assert!(stopped.code == Some(0) && stopped.stderr.contains(" is stopped"), "{stopped}");
    drop(client);
    tmux.key("Enter");
    let screen = tmux.wait_for_line("code 1");
    assert!(screen.contains("was stopped while its user was asked"), "{screen}");
    assert!(screen.contains("hint: `agents-sandbox run` starts it again"), "{screen}");
    assert_eq!(environment.run(&["run"]).success(), "attached\n");
    assert_eq!(Home::of(&environment).configured(), "one");
}

#[test]
fn a_yes_to_a_restart_counts_for_those_who_were_there_when_it_was_asked() {
    let environment = stand_in("opencode");
    let first_client = Client::attach(&environment);
    let first = server(&environment);
    configure(&environment, "one");
    let tmux = Tmux::new(&environment);
    tmux.fresh("$P run; echo \"code $?\"");
    tmux.wait_for("used by another client");
    tmux.wait_for("keep, restart or quit?");
    // Another command copies the configuration meanwhile, and another client comes.
    environment.run_at_once(&["exec", "true"]).success();
    let second_client = Client::attach(&environment);
    tmux.line("restart");
    tmux.wait_for_question("used by 2 other clients", "keep, restart or quit?");
    assert_eq!(server(&environment), first);
    tmux.line("restart");
    tmux.wait_for_line("attached");
    assert_ne!(server(&environment), first);
    tmux.key("C-d");
    tmux.wait_for_line("code 0");
    drop((first_client, second_client));
}

#[test]
fn the_agents_own_work_keeps_its_server() {
    let environment = stand_in("opencode");
    drop(Client::attach(&environment));
    let first = server(&environment);
    let busy = json!({ "status": { "/workspace": { "ses_1": { "type": "busy" } } } });
    environment.write("sessions.json", &busy.to_string());
    configure(&environment, "one");
    let ran = environment.run(&["run"]);
    assert!(ran.stderr.contains(LATER), "{ran}");
    assert_eq!(server(&environment), first);
    // Without work it starts again, and says nothing of others.
    environment.write("sessions.json", "{}");
    configure(&environment, "two");
    let ran = environment.run(&["run"]);
    assert!(!ran.stderr.contains(LATER) && ran.stdout == "attached\n", "{ran}");
    assert_ne!(server(&environment), first);
}

#[test]
fn one_that_ends_at_once_is_told_with_its_own_words_and_without_the_whole_wait() {
    let environment = stand_in("opencode");
    let program = environment.path("bin/opencode");
    let good = std::fs::read_link(&program).unwrap();
    std::fs::remove_file(&program).unwrap();
    environment.write("bin/opencode", "#!/bin/sh\necho 'bad key model' >&2\nexit 1\n");
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    // The second one finds the record of the first.
    for words in [&["run"][..], &["run", "--serve-only"]] {
        let begin = Instant::now();
        let ran = environment.run(words);
        // A server that is merely slow is given five minutes.
        assert!(begin.elapsed() < Duration::from_mins(1), "{:?}: {ran}", begin.elapsed());
        assert_eq!(ran.code, Some(1), "{ran}");
        let said = ran.stderr.find("error: the server of opencode does not answer after ");
        let said = &ran.stderr[said.unwrap_or_else(|| panic!("{ran}"))..];
        let (first, rest) = said.split_once('\n').unwrap();
        assert!(first.ends_with(" s: it ended by itself"), "{ran}");
        assert!(rest.starts_with("  │ bad key model\nhint: "), "{ran}");
    }
    std::fs::remove_file(&program).unwrap();
    symlink(good, &program).unwrap();
    let ran = environment.run(&["run"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "attached\n"), "{ran}");
}

/// A keeper of an earlier version that still runs refuses to read anything else.
#[test]
fn the_record_of_one_that_runs_stays_as_earlier_versions_read_it() {
    let environment = stand_in("opencode");
    drop(Client::attach(&environment));
    let first = record(&environment);
    let names: Vec<&String> = first.as_object().unwrap().keys().collect();
    assert!(names.iter().all(|name| ["boot_id", "password", "port"].contains(&name.as_str())), "{first}");
    drop(Client::attach(&environment));
    assert_eq!(record(&environment), first);
    // After a wake the guest's boot has a name of its own, which an earlier version does not write.
    environment.run(&["stop"]).success();
    drop(Client::attach(&environment));
    let mut earlier = record(&environment);
    assert_eq!(earlier.as_object_mut().unwrap().remove("guest_boot"), Some(first["boot_id"].clone()));
    std::fs::write(record_path(&environment), earlier.to_string()).unwrap();
    drop(Client::attach(&environment));
    assert_eq!(record(&environment), earlier);
}

/// The server's process, which in these tests is one of this computer.
fn process() -> Pid {
    let number = std::fs::read_to_string("/tmp/opencode-serve.log.pid").unwrap();
    Pid::from_raw(number.trim().parse().unwrap()).unwrap()
}

#[test]
fn after_a_wake_it_goes_on_and_one_that_died_is_started_again() {
    let environment = stand_in("opencode");
    drop(Client::attach(&environment));
    let first = server(&environment);
    environment.run(&["stop"]).success();
    assert_eq!(environment.run(&["run"]).success(), "attached\n");
    assert_eq!(server(&environment), first, "it slept, and answers as before");
    environment.run(&["stop"]).success();
    kill_process(process(), Signal::KILL).unwrap();
    assert_eq!(environment.run(&["run"]).success(), "attached\n");
    assert_ne!(server(&environment), first);
}

#[test]
fn one_that_does_not_answer_after_a_wake_is_started_again() {
    let environment = stand_in("opencode");
    drop(Client::attach(&environment));
    let (first, hangs) = (server(&environment), process());
    environment.run(&["stop"]).success();
    environment.run(&["exec", "true"]).success();
    kill_process(hangs, Signal::STOP).unwrap();
    let mut command = environment.command(&["run"]);
    let ran = environment.finish(command.env("AGENTS_SANDBOX_FAKE_SERVER_DEADLINE", "2"));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "attached\n"), "{ran}");
    assert_ne!((server(&environment), process()), (first, hangs));
    let words = std::fs::read(format!("/proc/{}/cmdline", hangs.as_raw_nonzero())).unwrap_or_default();
    assert!(words.is_empty(), "it was ended, although it heard no signal");
}

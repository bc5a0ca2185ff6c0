//! Newer versions of the agent: asked of npm in the background, offered at the next start.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use sandbox_state::{ProjectState, read_record, write_record};
use serde_json::Value;

use crate::environment::{Ran, TestEnvironment};
use crate::tmux::Tmux;

/// A started sandbox of pi, in whose image our build put version 1.2.3.
fn installed(environment: &TestEnvironment) {
    environment.run(&["exec", "--agent", "pi", "true"]).success();
    environment.run(&["stop", "--agent", "pi"]).success();
    let digest = change(environment, |state| {
        let digest = state["image_digest"].clone();
        state["agent"]["image"] =
            serde_json::json!({ "digest": digest, "users_own": false, "version": "1.2.3" });
    })["image_digest"]
        .clone();
    assert!(digest.is_string());
}

fn state_file(environment: &TestEnvironment) -> PathBuf {
    let state = environment.path("home/state/agents-sandbox");
    let folders = std::fs::read_dir(state).unwrap().map(|entry| entry.unwrap().path());
    folders.map(|folder| folder.join("pi/state.yaml")).find(|file| file.exists()).unwrap()
}

fn state(environment: &TestEnvironment) -> Value {
    let record: ProjectState = read_record(&state_file(environment)).unwrap().unwrap();
    serde_json::to_value(record).unwrap()
}

fn change(environment: &TestEnvironment, change: impl FnOnce(&mut Value)) -> Value {
    let mut state = state(environment);
    change(&mut state);
    let record: ProjectState = serde_json::from_value(state.clone()).unwrap();
    write_record(&state_file(environment), &record).unwrap();
    state
}

/// A stand-in for npm: notes its words and folder, and says `answer`.
fn npm(environment: &TestEnvironment, answer: &str) {
    let log = environment.path("npm.log");
    let script = format!("#!/bin/sh\necho \"$PWD $*\" >>{}\n{answer}\n", log.display());
    let npm = environment.write("bin/npm", &script);
    std::fs::set_permissions(npm, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// The program with the stand-in before everything else on the PATH.
fn run(environment: &TestEnvironment, words: &[&str]) -> Ran {
    let path = std::env::var("PATH").unwrap();
    let mut command = environment.command(words);
    command.env("PATH", format!("{}:{path}", environment.path("bin").display()));
    environment.finish(&mut command)
}

const RUN: [&str; 4] = ["run", "--agent", "pi", "--yes"];

fn asked(environment: &TestEnvironment) -> Vec<String> {
    let log = std::fs::read_to_string(environment.path("npm.log")).unwrap_or_default();
    log.lines().map(String::from).collect()
}

fn wait_for(what: &str, reached: impl Fn() -> bool) {
    let begin = Instant::now();
    while !reached() {
        assert!(begin.elapsed() < Duration::from_secs(30), "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn newest(environment: &TestEnvironment) -> Value {
    environment.json(&["sandbox", "inspect", "--agent", "pi"])["agent_version"]["newest"].clone()
}

#[test]
fn npm_is_asked_once_a_day_and_nobody_waits_for_it() {
    let environment = TestEnvironment::new();
    crate::steps::with_agent(&environment);
    installed(&environment);
    // A project's own settings for npm are not the user's.
    environment.write("project/.npmrc", "registry=http://127.0.0.1:1\n");
    npm(&environment, "sleep 2; echo 1.3.0");
    let begin = Instant::now();
    let first = run(&environment, &RUN);
    assert_eq!(first.stdout, "worked\n", "{first}");
    wait_for("npm's start", || !asked(&environment).is_empty());
    assert!(begin.elapsed() < Duration::from_secs(20) && newest(&environment).is_null());
    wait_for("npm's answer", || newest(&environment) == "1.3.0");
    let words =
        "/ view --fetch-retries=0 --fetch-timeout=20000 @earendil-works/pi-coding-agent@latest version";
    assert_eq!(asked(&environment), [words]);
    assert!(!first.stderr.contains("is out"), "{first}");

    environment.run(&["stop", "--agent", "pi"]).success();
    let second = run(&environment, &RUN);
    assert!(second.stderr.contains("pi 1.3.0 is out; this sandbox has 1.2.3"), "{second}");
    environment.run(&["stop", "--agent", "pi"]).success();
    let third = run(&environment, &RUN);
    assert!(!third.stderr.contains("is out"), "said once: {third}");
    assert_eq!(asked(&environment).len(), 1, "asked once a day");
    assert_eq!(state(&environment)["agent"]["image"]["version"], "1.2.3", "nothing was forced");
    let shown = environment.run(&["config", "show", "--format", "json"]).success();
    assert!(!shown.contains("agent-version"), "opencode's is not known: {shown}");
    environment.write("home/config/agents-sandbox/config.yaml", "agent: pi\n");
    let shown = environment.json(&["config", "show", "--format", "json"]);
    assert_eq!(shown["agent-version"], "1.2.3; 1.3.0 is out");
    let findings = environment.run(&["doctor", "--format", "json"]).stdout;
    let findings: Vec<Value> = serde_json::from_str(&findings).unwrap();
    let finding = findings.iter().find(|finding| finding["check"] == "agent version").unwrap();
    assert_eq!((&finding["detail"], &finding["grade"]), (&"pi: 1.2.3; 1.3.0 is out".into(), &"note".into()));
}

#[test]
fn an_npm_that_fails_or_says_something_else_changes_nothing() {
    let environment = TestEnvironment::new();
    crate::steps::with_agent(&environment);
    installed(&environment);
    let record = environment.path("home/state/agents-sandbox/agent-versions.json");
    for answer in ["echo 9.9.9; exit 1", "echo '<html>'; echo 9.9"] {
        npm(&environment, answer);
        let _ = std::fs::remove_file(&record);
        let count = asked(&environment).len();
        run(&environment, &RUN);
        wait_for("npm's end", || asked(&environment).len() > count);
        std::thread::sleep(Duration::from_millis(500));
        assert!(newest(&environment).is_null(), "{answer}");
    }
    let _ = std::fs::remove_file(&record);
    let count = asked(&environment).len();
    environment.write("home/config/agents-sandbox/config.yaml", "upgrade:\n  agents: off\n");
    run(&environment, &RUN);
    assert!(!record.exists() && asked(&environment).len() == count, "switched off");
}

#[test]
fn a_newer_version_is_offered_once_and_taken_on_a_yes() {
    let environment = TestEnvironment::new();
    crate::steps::with_agent(&environment);
    installed(&environment);
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let record = |version: &str| {
        let text = serde_json::json!({ "agents": { "pi": { "asked": now, "version": version } } });
        environment.write("home/state/agents-sandbox/agent-versions.json", &text.to_string());
    };
    // What sleeps would be lost for it, so that one that sleeps is only told.
    environment.run(&["stop", "--agent", "pi"]).success();
    record("1.2.9");
    let told = run(&environment, &RUN);
    assert!(
        told.stderr.contains("`agents-sandbox build --agent pi --agent-version latest` takes it"),
        "{told}"
    );
    let rest = || environment.run(&["stop", "--cold", "--agent", "pi"]).success();
    rest();
    record("1.3.0");
    let tmux = Tmux::new(&environment);
    tmux.fresh("$P run --agent pi; echo \"code $?\"");
    let screen = tmux.wait_for("upgrade, keep or quit?");
    assert!(screen.contains("pi 1.3.0 is out; this sandbox has 1.2.3."), "{screen}");
    tmux.line("quit");
    tmux.wait_for_line("code 1");
    tmux.fresh("$P run --agent pi; echo \"code $?\"");
    tmux.wait_for("upgrade, keep or quit?");
    tmux.line("keep");
    tmux.wait_for_line("code 0");
    rest();
    tmux.fresh("$P run --agent pi; echo \"code $?\"");
    let screen = tmux.wait_for_line("code 0");
    assert!(!screen.contains("is out"), "{screen}");
    rest();
    let before = state(&environment)["image_digest"].clone();
    record("1.4.0");
    tmux.fresh("$P run --agent pi; echo \"code $?\"");
    tmux.wait_for("upgrade, keep or quit?");
    tmux.key("Enter");
    tmux.wait_for("keep, reset, migrate or quit?");
    tmux.key("Enter");
    tmux.wait_for_line("code 0");
    assert_ne!(state(&environment)["image_digest"], before, "another image");
    assert_eq!(state(&environment)["agent"]["wanted"]["version"], "1.4.0");
    rest();
    // The next start has the same version, and asks nothing.
    let taken = state(&environment)["image_digest"].clone();
    tmux.fresh("$P run --agent pi; echo \"code $?\"");
    tmux.wait_for_line("code 0");
    assert_eq!(state(&environment)["image_digest"], taken);
}

#[test]
fn a_yes_to_a_newer_version_ends_nothing_that_sleeps_by_then() {
    let environment = TestEnvironment::new();
    crate::steps::with_agent(&environment);
    installed(&environment);
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let text = serde_json::json!({ "agents": { "pi": { "asked": now, "version": "1.3.0" } } });
    environment.write("home/state/agents-sandbox/agent-versions.json", &text.to_string());
    environment.run(&["stop", "--cold", "--agent", "pi"]).success();
    let before = state(&environment)["image_digest"].clone();
    let tmux = Tmux::new(&environment);
    tmux.fresh("$P run --agent pi; echo \"code $?\"");
    tmux.wait_for("upgrade, keep or quit?");
    environment.run_at_once(&["exec", "--agent", "pi", "true"]).success();
    environment.run_at_once(&["stop", "--agent", "pi"]).success();
    tmux.key("Enter");
    let screen = tmux.wait_for_line("code 0");
    assert!(screen.contains("pi is not upgraded now"), "{screen}");
    assert!(!screen.contains("is dropped"), "{screen}");
    assert_eq!(state(&environment)["image_digest"], before);
}

#[test]
fn a_pinned_version_stays_until_it_is_taken_back() {
    let environment = TestEnvironment::new();
    crate::steps::with_agent(&environment);
    let digest = || state(&environment)["image_digest"].clone();
    run(&environment, &["run", "--agent", "pi", "--agent-version", "1.0.0"]);
    let pinned = digest();
    environment.run(&["stop", "--agent", "pi"]).success();
    run(&environment, &RUN);
    assert_eq!(digest(), pinned, "the next run has it too");
    assert_eq!(state(&environment)["agent"]["wanted"]["pinned"], true);
    let json = environment.json(&["sandbox", "inspect", "--agent", "pi"]);
    assert_eq!(json["agent_version"]["pinned"], "1.0.0");
    environment.run(&["build", "--agent", "pi", "--agent-version", "1.1.0"]).success();
    environment.run(&["stop", "--cold", "--agent", "pi"]).success();
    run(&environment, &RUN);
    assert_ne!(digest(), pinned, "`build` pins as well");
    npm(&environment, "echo 1.2.0");
    run(&environment, &["build", "--agent", "pi", "--agent-version", "latest"]);
    let wanted = state(&environment)["agent"]["wanted"].clone();
    assert_eq!(wanted, serde_json::json!({ "version": "1.2.0", "pinned": false }));
}

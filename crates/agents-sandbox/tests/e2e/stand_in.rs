//! An agent that the user's own image brings: a stand-in, because opencode2's package is not to be had
//! everywhere, and because it says of its sessions what a test wants.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::screen::Screen;
use crate::world::World;
use crate::{FIRST_PATIENCE, PATIENCE};

fn world(name: &str, settings: &str) -> World {
    let world = World::new(name);
    world.add_settings(settings);
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fake-agent/opencode2");
    world.write(".agents-sandbox/stand-in", &fs::read_to_string(program).unwrap());
    // In an earlier stage, so that nothing is installed beside it.
    let dockerfile = "FROM agents-sandbox/runner-base AS own\n\
        COPY --chmod=755 stand-in /usr/local/bin/opencode\n\
        RUN ln /usr/local/bin/opencode /usr/local/bin/opencode2\n\
        FROM own\n";
    world.write(".agents-sandbox/Dockerfile", dockerfile);
    // What the agent is told is no part of the image.
    world.write(".agents-sandbox/.dockerignore", "opencode\n");
    world
}

fn inspect(world: &World, agent: &str) -> Value {
    serde_json::from_str(&world.succeeds(&["sandbox", "inspect", "--agent", agent], PATIENCE)).unwrap()
}

#[test]
fn opencode2_serves_makes_worktrees_and_starts_anew_when_its_configuration_changes() {
    let world = world("two", "");
    world.write("file.txt", "one");
    world.write(".git/info/exclude", ".agents-sandbox\n");
    world.git(".", &["add", "file.txt"]);
    world.git(".", &["commit", "--quiet", "-m", "one"]);
    let run =
        |words: &[&str]| world.succeeds(&[&["run", "--agent", "opencode2"], words].concat(), FIRST_PATIENCE);
    let exec =
        |script: &str| world.succeeds(&["exec", "--agent", "opencode2", "--", "sh", "-c", script], PATIENCE);
    assert_eq!(run(&["--keep", "2h", "--", "hello"]), "stand-in /workspace ['hello']\n");
    let server = "cat /tmp/opencode2-serve.log.pid";
    let first = exec(server);
    assert_eq!(run(&["--", "again"]), "stand-in /workspace ['again']\n");
    assert_eq!(exec(server), first, "the server that answers is kept");
    world.write(".agents-sandbox/opencode/opencode-theme.json", r#"{"theme":"dark"}"#);
    assert_eq!(run(&["--", "anew"]), "stand-in /workspace ['anew']\n");
    assert_ne!(exec(server), first, "it read the new configuration");
    assert!(exec("cat ~/.config/opencode/opencode.jsonc").contains("dark"));

    let tree = run(&["-w", "fix-it", "--", "there"]);
    assert!(tree.contains("/worktree/project1/fix-it ['there']"), "{tree}");
    let listed = world.succeeds(&["worktree", "list", "--agent", "opencode2", "--format", "json"], PATIENCE);
    assert_eq!(serde_json::from_str::<Value>(&listed).unwrap()[0]["name"], "fix-it", "{listed}");

    let known = inspect(&world, "opencode2");
    assert_eq!(known["agent_version"]["users_own"], true);
    assert!(known["agent_version"]["installed"].is_null());
    // Nobody is attached, it tells of no sessions, and yet it stays: it was asked to.
    std::thread::sleep(Duration::from_secs(15));
    let kept = inspect(&world, "opencode2");
    assert_eq!(kept["status"], "running");
    let reason = kept["keeper"]["reason"].as_str().unwrap();
    assert!(reason.starts_with("held: kept for 1"), "{reason}");
    world.succeeds(&["stop", "--agent", "opencode2"], PATIENCE);
    run(&["--", "without"]);
    world.wait_for("the stop after the last client", PATIENCE, |list| list["status"] == "stopped");
    // A file that no layer copies is another content all the same, and every layer comes from the cache.
    world.write(".agents-sandbox/beside.txt", "not copied");
    world.succeeds(&["build", "--agent", "opencode2"], PATIENCE);
}

#[test]
fn what_the_sessions_do_decides_whether_the_sandbox_stays() {
    let world = world("states", "auto-stop: stop\nauto-stop-timeout: 2s\nauto-stop-max-session-retries: 3\n");
    let start = || assert_eq!(world.succeeds(&["run"], FIRST_PATIENCE), "attached\n");
    let say = |sessions: &Value| {
        let script = format!("echo '{sessions}' >/tmp/new && mv /tmp/new /tmp/stand-in-sessions.json");
        world.succeeds(&["exec", "--", "sh", "-c", &script], PATIENCE);
    };
    let busy = json!({ "type": "busy" });
    let retry = |attempt: u32| json!({ "type": "retry", "attempt": attempt, "message": "overload" });
    let cases = [
        (
            json!({ "status": { "/workspace": { "a": busy }, "/home/dev/tree": { "b": retry(2) } } }),
            "held: 1 busy session, 1 retrying session",
            json!({ "status": { "/home/dev/tree": { "b": retry(3) } } }),
            "1 session retries in vain",
        ),
        (
            json!({ "status": { "/home/dev/tree": { "b": busy, "c": busy } },
                "question": { "/home/dev/tree": [{ "sessionID": "c" }] } }),
            "held: 1 busy session",
            json!({ "status": { "/home/dev/tree": { "b": busy, "c": busy } },
                "question": { "/home/dev/tree": [{ "sessionID": "c" }] },
                "permission": { "/home/dev/tree": [{ "sessionID": "b" }] } }),
            "2 sessions wait for the user",
        ),
    ];
    let last_word = |found: &str| {
        let logs: Value = inspect(&world, "opencode")["logs"].clone();
        let log = fs::read_to_string(logs["keeper"].as_str().unwrap()).unwrap();
        assert!(log.contains(found), "{found}: {log}");
    };
    for (holds, reason, lets_go, word) in &cases {
        start();
        say(holds);
        world.wait_for(reason, PATIENCE, |list| list["detail"] == *reason);
        // Longer than auto-stop-timeout.
        std::thread::sleep(Duration::from_secs(6));
        assert_eq!(
            (&world.sandbox()["status"], &world.sandbox()["detail"]),
            (&"running".into(), &(*reason).into())
        );
        say(lets_go);
        world.wait_for("the stop", PATIENCE, |list| list["status"] == "stopped");
        last_word(word);
    }
}

#[test]
fn a_client_that_is_kept_is_back_before_its_server_answers() {
    // A server that does not answer is waited for, for five minutes.
    const SOON: Duration = Duration::from_mins(2);
    let world = world("back", "");
    let attached = |screen: &str| screen.lines().any(|line| line.trim() == "attached");
    let screen = Screen::open(&world, &["run"]);
    screen.wait_for("the client", FIRST_PATIENCE, attached);
    screen.press("C-]");
    world.wait_for("the sleep after the last client", PATIENCE, |list| list["saved_memory"].is_number());
    let signal = |name: &str| {
        let script = format!("kill -{name} $(cat /tmp/opencode-serve.log.pid)");
        world.succeeds(&["exec", "--", "sh", "-c", &script], PATIENCE);
    };
    let sessions = || {
        let text = world.succeeds(&["session", "list", "--format", "json"], PATIENCE);
        serde_json::from_str::<Value>(&text).unwrap().as_array().unwrap().len()
    };
    signal("STOP");
    let again = Screen::open(&world, &["run"]);
    again.wait_for("the same client", SOON, attached);
    assert_eq!(sessions(), 1);
    let other = Screen::open(&world, &["run", "--new"]);
    other.wait_for("a wait", PATIENCE, |screen| screen.contains("waiting for the agent's server"));
    assert!(!attached(&other.text()));
    signal("CONT");
    other.wait_for("another client", PATIENCE, attached);
}

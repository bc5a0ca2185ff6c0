//! A shell and an agent that outlive their windows, and the sleep of their sandboxes.

use crate::agents::configure_pi;
use crate::placeholder::Login;
use crate::screen::Screen;
use crate::world::World;
use crate::{FIRST_PATIENCE, PATIENCE};

/// How far the counter on the screen has come.
fn count(screen: &str) -> Option<u32> {
    screen.lines().rev().find_map(|line| line.trim().strip_prefix("count ")?.parse().ok())
}

#[test]
fn a_shell_outlives_its_window_and_the_sleep_of_its_sandbox() {
    let world = World::new("sessions");
    let screen = Screen::open(&world, &["shell"]);
    screen.wait_for("a prompt", FIRST_PATIENCE, |text| text.contains("/workspace"));
    // A shell that waits for its user is not ended by a window that closes.
    screen.close();
    let screen = Screen::open(&world, &["shell"]);
    screen.wait_for("the same prompt", PATIENCE, |text| text.contains("/workspace"));
    // What is typed has to fit into one line to be found there.
    screen.say("PS1='> '");
    screen.say("while sleep 0.2; do echo count $((++n)); done");
    screen.wait_for("counting", PATIENCE, |text| count(text) >= Some(3));
    screen.close();

    // The window is closed, the counter counts.
    let sessions = || -> serde_json::Value {
        let text = world.succeeds(&["session", "list", "--format", "json"], PATIENCE);
        serde_json::from_str(&text).unwrap()
    };
    world.wait_for("a session without a terminal", PATIENCE, |_| sessions()[0]["status"] == "detached");
    let screen = Screen::open(&world, &["shell"]);
    screen.wait_for("the same counter", PATIENCE, |text| count(text) >= Some(10));
    // Everything in between is there, without a gap.
    let seen = screen.history();
    let counts: Vec<u32> =
        seen.lines().filter_map(|line| line.trim().strip_prefix("count ")?.parse().ok()).collect();
    assert_eq!(sessions()[0]["id"], 1);
    assert!(counts.starts_with(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]), "{seen}");

    // Asleep with somebody attached, and awake again.
    world.succeeds(&["stop"], PATIENCE);
    assert!(world.sandbox()["saved_memory"].is_number(), "{}", world.sandbox());
    drop(screen);
    let screen = Screen::open(&world, &["shell"]);
    let before = *counts.last().unwrap();
    screen.wait_for("the counter after the sleep", PATIENCE, |text| count(text) > Some(before));
    screen.press("C-]");
    world.wait_for("a session without a terminal", PATIENCE, |_| sessions()[0]["status"] == "detached");

    let screen = Screen::open(&world, &["shell", "--new"]);
    screen.wait_for("another prompt", PATIENCE, |text| text.contains(":/workspace"));
    assert_eq!(sessions().as_array().unwrap().len(), 2);
    screen.say("exit 7");
    world.wait_for("the end of the other shell", PATIENCE, |_| sessions().as_array().unwrap().len() == 1);
    world.succeeds(&["session", "end", "1"], PATIENCE);
    assert_eq!(sessions(), serde_json::json!([]));
    world.wait_for("the stop after the last client", PATIENCE, |list| list["status"] == "stopped");
}

/// pi tells nobody what it does: what is left of it, and what holds its sandbox, the terminal in the guest knows alone.
#[test]
fn an_agent_that_ends_while_nobody_looks_holds_nothing_and_is_told_of() {
    let mut world = World::new("unseen");
    let login = Login::new(&mut world, "PROVIDER_KEY");
    configure_pi(&world, &login.url());
    // Time enough to end before the sandbox sleeps.
    world.add_settings("auto-stop-timeout: 2m\n");
    world.succeeds(&["build", "--agent", "pi"], FIRST_PATIENCE);
    login.lead_there();
    let task = "TOOL:touch begun; until test -e go; do sleep 0.2; done";
    let screen = Screen::open(&world, &["run", "--agent", "pi", "--", "-p", task]);
    world.wait_for("the agent at work", PATIENCE, |_| world.has("begun"));
    screen.press("C-]");
    let session = || -> serde_json::Value {
        let text = world.succeeds(&["session", "list", "--agent", "pi", "--format", "json"], PATIENCE);
        serde_json::from_str::<Vec<serde_json::Value>>(&text).unwrap().pop().unwrap_or_default()
    };
    world.wait_for("a session without a terminal", PATIENCE, |_| session()["status"] == "detached");
    world.write("go", "");
    world.wait_for("the end of the agent", PATIENCE, |_| session()["status"] == "ended");
    let ended = session();
    assert_eq!((&ended["exit_code"], &ended["id"]), (&0.into(), &1.into()), "{ended:#}");
    assert_eq!(ended["command"], format!("pi -p {task}"), "{ended:#}");
    assert_eq!(world.sandbox()["status"], "running", "its end is not the sandbox's");
    world.wait_for("the stop after the last client", PATIENCE, |list| list["status"] == "stopped");

    // The sandbox has slept meanwhile, with what nobody has seen.
    let attach = format!("{} session attach --agent pi 1; echo code $?; exec sleep 3600", World::program());
    let screen = Screen::start(world.command("tmux"), "sh", &["-c", &attach]);
    screen.wait_for("its end", PATIENCE, |text| text.lines().any(|line| line.trim() == "code 0"));
    let seen = screen.history();
    assert!(seen.contains("Hello from the fake provider. (after tool)"), "{seen}");
    assert!(session().is_null(), "what was seen is not kept");
}

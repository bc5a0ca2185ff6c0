//! A shell that outlives its window, and the sleep of its sandbox.

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

//! The real agents in real virtual machines, on a real terminal, with a fake model behind them.
//!
//! The first run bootstraps a base and builds the runner image, which takes minutes; the layers stay in
//! the build's folder for the next.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::print_stderr, reason = "a test that failed shows the sandbox's logs")]

#[path = "../../../sandbox-image/tests/engines/account.rs"]
mod account;
mod agents;
mod docker;
mod ordinary;
#[path = "../../../sandbox-network/tests/bridge/world.rs"]
#[allow(dead_code, reason = "the bridge's own cases use its servers")]
mod outside;
#[path = "../../../sandbox-agents/tests/server/package.rs"]
mod package;
mod placeholder;
mod provider;
#[path = "../../../sandbox-network/tests/bridge/proxies.rs"]
#[allow(dead_code, reason = "the bridge's own cases use the other kinds")]
mod proxies;
mod registry;
mod screen;
mod serve;
mod sessions;
mod signing;
mod stand_in;
mod worktrees;
mod world;

use std::time::{Duration, Instant};

use ordinary::Person;
use placeholder::{BEARER, Login};
use screen::Screen;
use world::World;

/// Everything in here is emulated, beside other tests.
const PATIENCE: Duration = Duration::from_mins(15);
/// The first picture also waits for the image.
const FIRST_PATIENCE: Duration = Duration::from_mins(20);

#[test]
fn opencode_answers_asks_and_holds_its_sandbox() {
    let mut world = World::new("terminal");
    let login = Login::new(&mut world, "PROVIDER_KEY");
    let provider = &login.provider;
    world.configure_opencode(&login.url(), "{env:PROVIDER_KEY}");
    world.write(
        ".agents-sandbox/opencode/opencode-ask.json",
        r#"{"permission":{"bash":{"*":"allow","touch *":"ask"}}}"#,
    );
    world.add_settings("auto-stop-max-session-retries: 1\n");
    let built = Instant::now();
    world.succeeds(&["build"], FIRST_PATIENCE);
    let built = built.elapsed();
    login.lead_there();
    let prompt = |text: &str| text.contains("ctrl+p commands");
    let cold = Instant::now();
    let screen = Screen::open(&world, &["run"]);
    screen.wait_for("opencode's input", PATIENCE, prompt);
    let cold = cold.elapsed();

    screen.say("hello from a test");
    screen.wait_for("an answer", PATIENCE, |text| text.contains("Hello from the fake provider."));

    screen.say("TOOL:echo made inside > made.txt");
    screen.wait_for("an answer after the tool", PATIENCE, |text| text.contains("(after tool)"));
    assert_eq!(world.read("made.txt"), "made inside\n");
    assert_eq!(world.owner("made.txt"), world.owner("."), "the guest's file belongs to the checkout's owner");
    login.has_worked(&world, "opencode", BEARER);

    let answers = provider.count("text");
    screen.say("please ASK");
    screen.wait_for("the question", PATIENCE, |text| text.contains("Which colour?"));
    assert_eq!(provider.count("text"), answers, "the model waits for the user");
    let screen = leave_and_come_back(&world, screen, ": 1 session waits for the user");
    screen.wait_for("the question again", PATIENCE, |text| text.contains("Which colour?"));
    screen.press("Enter");
    screen.wait_for("an answer after the question", PATIENCE, |_| provider.count("text") > answers);

    let answers = provider.count("text");
    let permission = |text: &str| text.contains("Permission required");
    screen.say("TOOL:touch asked.txt");
    screen.wait_for("the question for permission", PATIENCE, permission);
    let screen = leave_and_come_back(&world, screen, ": 1 session waits for the user");
    screen.wait_for("the question for permission again", PATIENCE, permission);
    assert!(!world.has("asked.txt"));
    screen.press("Enter");
    screen.wait_for("an answer after what was permitted", PATIENCE, |_| provider.count("text") > answers);
    assert!(world.has("asked.txt"));

    screen.say("now HANG");
    screen.wait_for("half an answer", PATIENCE, |text| text.contains("working on it"));
    screen.close();
    world.wait_for("a sandbox held by its busy session", PATIENCE, |list| {
        list["detail"].as_str().is_some_and(|detail| detail.contains("busy session"))
    });
    // Longer than auto-stop-timeout: without the busy session it would be stopped by now.
    std::thread::sleep(Duration::from_secs(15));
    assert_eq!(world.sandbox()["status"], "running");
    let sessions = world.succeeds(&["session", "list"], PATIENCE);
    assert!(sessions.contains("detached"), "the client outlives its window: {sessions}");
    let warm = Instant::now();
    let screen = Screen::open(&world, &["run"]);
    screen.wait_for("opencode's input again", PATIENCE, prompt);
    agents::note_prompt("opencode", built, cold, warm.elapsed());

    // The provider fails, and is to be tried again much later than the sandbox stops.
    screen.say("now FAIL:60");
    provider.release();
    screen.wait_for("a failure", PATIENCE, |_| provider.count("fail") > 0);
    screen.close();
    world.wait_for("the stop in spite of a retry", PATIENCE, |list| list["status"] == "stopped");
    let log = world.keeper_log();
    assert!(log.contains("stopping: 1 session retries in vain"), "{log}");
}

/// Closes the window, waits until the keeper says that the sandbox stops soon and why its session does not hold it,
/// and opens another window.
fn leave_and_come_back(world: &World, screen: Screen, why: &str) -> Screen {
    let said = || {
        let log = world.keeper_log();
        log.lines().filter(|line| line.contains(" stops in ") && line.ends_with(why)).count()
    };
    let before = said();
    screen.close();
    world.wait_for(why, PATIENCE, |_| said() > before);
    Screen::open(world, &["run"])
}

#[test]
fn twenty_at_once_make_one_sandbox() {
    let world = World::new("twenty");
    let script = "cat /proc/sys/kernel/random/boot_id";
    let children: Vec<_> = (0..20).map(|_| world.spawn(&["exec", "--", "sh", "-c", script])).collect();
    let mut boots: Vec<String> = children
        .into_iter()
        .map(|child| {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap()
        })
        .collect();
    boots.dedup();
    assert_eq!(boots.len(), 1, "all of them ran in one boot: {boots:?}");
    world.wait_for("the stop after the last client", PATIENCE, |list| list["status"] == "stopped");
}

#[test]
fn an_ordinary_user_needs_no_root_anywhere() {
    let person = Person::new();
    let inside =
        person.sandbox(&["exec", "--", "sh", "-c", "id -un; echo from the guest > file; touch ~/kept"]);
    assert_eq!(inside, "dev\n");
    assert_eq!(person.read("file"), "from the guest\n");
    assert!(person.owns("file"));
    person.sandbox(&["stop"]);
    assert_eq!(person.sandbox(&["exec", "--", "sh", "-c", "cd && ls -d kept"]), "kept\n");
    assert_eq!(person.sandbox(&["exec", "--root", "--", "id", "-un"]), "root\n");
}

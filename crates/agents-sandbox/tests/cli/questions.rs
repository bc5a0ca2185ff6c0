//! What a person is asked in the middle of a run, through a real terminal.

use crate::environment::TestEnvironment;
use crate::tmux::Tmux;

/// A sandbox that another client uses, which `change` then makes differ.
pub fn used(environment: &TestEnvironment) -> std::process::Child {
    environment.run(&["exec", "true"]).success();
    client(environment)
}

/// A client that stays.
pub fn client(environment: &TestEnvironment) -> std::process::Child {
    let mut client = environment
        .command(&["exec", "--", "sh", "-c", "echo ready; exec sleep 600"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut reader = std::io::BufReader::new(client.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut reader, &mut line).unwrap();
    assert_eq!(line, "ready\n");
    client
}

fn boot(environment: &TestEnvironment) -> String {
    environment.json(&["sandbox", "inspect"])["boot_id"].as_str().unwrap().to_string()
}

#[test]
fn nobody_is_cut_off_without_a_yes() {
    let environment = TestEnvironment::new();
    let mut client = used(&environment);
    let before = boot(&environment);
    // Without a terminal it keeps, and says so.
    let ran = environment.run(&["shell", "--tmp-size", "1G"]);
    assert!(
        ran.stderr.contains("others use the sandbox, so it keeps running as it is; changed since: tmp-size"),
        "{ran}"
    );
    let tmux = Tmux::new(&environment);
    tmux.fresh("$P shell --tmp-size 1G");
    let screen = tmux.wait_for("keep, proceed or quit?");
    assert!(screen.contains("tmp-size: 2G → 1G") && screen.contains("held by 1 client"), "{screen}");
    tmux.key("Enter");
    tmux.line("echo in the $((40 + 2))nd; exit");
    tmux.wait_for("in the 42nd");
    assert_eq!(boot(&environment), before, "Enter keeps");
    tmux.fresh("$P shell --tmp-size 1G; echo \"code $?\"");
    tmux.wait_for("keep, proceed or quit?");
    tmux.line("quit");
    tmux.wait_for_line("code 1");
    tmux.wait_for("nothing was changed");
    assert!(client.try_wait().unwrap().is_none(), "the other client goes on");
    assert_eq!(boot(&environment), before);
    tmux.fresh("$P shell --tmp-size 1G");
    tmux.wait_for("keep, proceed or quit?");
    tmux.line("p");
    tmux.line("echo in the $((40 + 3))rd; exit");
    tmux.wait_for("in the 43rd");
    assert_ne!(boot(&environment), before);
    assert!(!client.wait().unwrap().success(), "the other client was cut off, as it was said");
}

#[test]
fn no_value_of_a_variable_is_shown() {
    let environment = TestEnvironment::new();
    environment.write("home/config/agents-sandbox/env", "TOKEN=first-secret\n");
    let mut client = used(&environment);
    environment.write("home/config/agents-sandbox/env", "TOKEN=second-secret\n");
    let tmux = Tmux::new(&environment);
    tmux.fresh("$P shell; echo \"code $?\"");
    let screen = tmux.wait_for("keep, proceed or quit?");
    assert!(screen.contains("env: TOKEN → TOKEN (another value)"), "{screen}");
    assert!(!screen.contains("-secret"), "{screen}");
    tmux.line("q");
    tmux.wait_for_line("code 1");
    client.kill().unwrap();
    client.wait().unwrap();
}

/// A new image, as a changed Dockerfile makes it.
pub fn another_image(environment: &TestEnvironment) {
    environment.write("runtime-image", "another");
}

#[test]
fn a_new_image_asks_about_the_home_when_the_sandbox_is_made_anew() {
    let environment = TestEnvironment::new();
    environment.rested(0);
    let first = environment.json(&["volume", "inspect"])["name"].clone();
    another_image(&environment);
    let current = || environment.json(&["volume", "inspect"])["name"].clone();
    let tmux = Tmux::new(&environment);
    tmux.fresh("$P shell; echo \"code $?\"");
    let screen = tmux.wait_for("keep, reset, migrate or quit?");
    assert!(screen.contains("The image changed"), "{screen}");
    tmux.line("quit");
    tmux.wait_for_line("code 1");
    assert_eq!((current(), environment.volumes().len()), (first.clone(), 1));
    // What was not answered is asked again.
    tmux.fresh("$P shell");
    tmux.wait_for("keep, reset, migrate or quit?");
    tmux.line("migrate");
    tmux.line("echo in the $((40 + 2))nd; exit");
    tmux.wait_for("in the 42nd");
    assert_ne!(current(), first);
    assert_eq!(environment.volumes().len(), 2, "the old one is kept");
    // Settled: the next run asks nothing.
    tmux.fresh("$P shell");
    tmux.line("echo in the $((40 + 3))rd; exit");
    let screen = tmux.wait_for("in the 43rd");
    assert!(!screen.contains("keep, reset"), "{screen}");
}

#[test]
fn without_a_terminal_a_new_image_keeps_the_home_and_says_so() {
    let environment = TestEnvironment::new();
    environment.rested(0);
    let first = environment.json(&["volume", "inspect"])["name"].clone();
    another_image(&environment);
    let ran = environment.run(&["shell"]);
    assert!(
        ran.stderr.contains("the image changed; the home volume") && ran.stderr.contains("is kept"),
        "{ran}"
    );
    assert_eq!(environment.json(&["volume", "inspect"])["name"], first);
    assert!(!environment.run(&["shell"]).stderr.contains("the image changed"));
}

#[test]
fn a_rebuild_that_waits_asks_nothing() {
    let environment = TestEnvironment::new();
    let mut client = used(&environment);
    another_image(&environment);
    let ran = environment.run(&["shell"]);
    assert!(ran.stderr.contains("changed since: image"), "{ran}");
    assert!(!ran.stderr.contains("home volume"), "{ran}");
    client.kill().unwrap();
    client.wait().unwrap();
    // Now that it is made anew, the question is due.
    environment.run(&["stop", "--cold"]).success();
    let ran = environment.run(&["shell"]);
    assert!(ran.stderr.contains("the image changed; the home volume"), "{ran}");
}

#[test]
fn a_sandbox_that_is_kept_gets_the_new_configuration_all_the_same() {
    let environment = TestEnvironment::new();
    let mut client = used(&environment);
    let before = boot(&environment);
    environment.write("home/config/agents-sandbox/opencode/agent/review.md", "look twice");
    let ran = environment.run(&["shell", "--tmp-size", "1G"]);
    assert!(ran.stderr.contains("changed since: tmp-size"), "{ran}");
    let words = ["exec", "--", "sh", "-c", "cat ~/.config/opencode/agent/review.md"];
    assert_eq!(environment.run(&words).success(), "look twice");
    assert_eq!(boot(&environment), before);
    client.kill().unwrap();
    client.wait().unwrap();
}

//! A folder whose `.git` comes or goes has other sandboxes from then on; what it had is said, and can be had.

use std::process::Command;

use crate::environment::TestEnvironment;

fn git(environment: &TestEnvironment, words: &[&str]) {
    let mut command = Command::new("git");
    environment.seal(command.args(words).current_dir(environment.project()));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

fn home(environment: &TestEnvironment, script: &str) -> String {
    environment.run(&["-l", "warning", "exec", "--", "sh", "-c", script]).success()
}

#[test]
fn a_folder_that_becomes_a_repository_is_told_where_its_home_is() {
    let environment = TestEnvironment::new();
    home(&environment, "echo work > ~/kept");
    let old = environment.sandbox();
    let volume = environment.json(&["volume", "inspect"])["name"].as_str().unwrap().to_string();
    environment.run(&["stop", "--cold"]).success();
    git(&environment, &["init", "-q"]);
    let ran = environment.run(&["exec", "true"]);
    let names = environment.run(&["list", "--names"]).success();
    let new = names.lines().find(|name| *name != old).unwrap().to_string();
    let slug = |name: &str| name.strip_suffix("-opencode").unwrap().to_string();
    assert!(ran.stderr.contains(&format!("were named {}-AGENT", slug(&old))), "{ran}");
    assert!(ran.stderr.contains(&format!("are {}-AGENT from now on", slug(&new))), "{ran}");
    assert!(ran.stderr.contains(&format!("volume migrate --agent opencode {volume}`")), "{ran}");
    assert!(ran.stderr.contains(&format!("sandbox remove {old}`")), "{ran}");
    let again = environment.run(&["exec", "true"]);
    assert!(!again.stderr.contains("from now on"), "it is said once: {again}");
    // The way that was named.
    environment.run(&["volume", "migrate", "--agent", "opencode", &volume]).success();
    environment.run(&["stop", "--cold"]).success();
    assert!(environment.json(&["volume", "inspect"])["name"].as_str().unwrap().starts_with(&slug(&new)));
    environment.run(&["sandbox", "remove", &old]).success();
    // And back again: a new name once more, the last of those it had.
    std::fs::remove_dir_all(environment.project().join(".git")).unwrap();
    let ran = environment.run(&["exec", "true"]);
    assert!(ran.stderr.contains(&format!("are {}-AGENT from now on", slug(&old))), "{ran}");
}

#[test]
fn a_volume_of_another_checkout_is_still_refused() {
    let environment = TestEnvironment::new();
    environment.run(&["exec", "true"]).success();
    let volume = environment.json(&["volume", "inspect"])["name"].as_str().unwrap().to_string();
    std::fs::create_dir(environment.path("other")).unwrap();
    let mut command = environment.command(&["volume", "migrate", &volume]);
    let ran = environment.finish(command.current_dir(environment.path("other")));
    assert_eq!(ran.code, Some(1), "{ran}");
    assert!(ran.stderr.contains("belongs to another"), "{ran}");
}

//! A launcher that dies at every step of the lifecycle: the next run works, and nothing is lost.

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;

use crate::environment::TestEnvironment;
use crate::serve::stand_in;

const KILL_AT: &str = "AGENTS_SANDBOX_KILL_AT";
const KILL: i32 = 9;

/// Runs with the n-th place armed; where it died, or `None` where it came through.
fn die_at(environment: &TestEnvironment, words: &[&str], place: usize) -> Option<String> {
    let output = environment.command(words).env(KILL_AT, place.to_string()).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.signal() == Some(KILL) {
        let line = told.lines().find_map(|line| line.strip_prefix("killed: "));
        return Some(line.unwrap_or_else(|| panic!("it died of something else: {told}")).to_string());
    }
    assert_eq!(output.status.code(), Some(0), "place {place}: {told}");
    None
}

/// The home's files on the host, as the fake keeps them.
fn home(environment: &TestEnvironment) -> PathBuf {
    let ran = environment.run(&["exec", "--", "sh", "-c", "echo $HOME"]).success();
    PathBuf::from(ran.trim().replace("$ROOT/", &environment.path("").to_string_lossy()))
}

/// The next run works, there is one sandbox, and its home is the recorded one.
#[track_caller]
fn works(environment: &TestEnvironment, place: &str) {
    let ran = environment.run(&["exec", "--", "sh", "-c", "exit 7"]);
    assert_eq!(ran.code, Some(7), "killed at `{place}`: {ran}");
    environment.sandbox();
    let volume = environment.json(&["volume", "inspect"]);
    assert_eq!(volume["problem"], serde_json::Value::Null, "killed at `{place}`: {volume:#}");
    assert_eq!(volume["mounted_by"][0], environment.sandbox(), "killed at `{place}`: {volume:#}");
}

#[test]
fn a_first_run_killed_at_any_step_is_made_good_by_the_next() {
    let mut places = Vec::new();
    for place in 1.. {
        let environment = TestEnvironment::new();
        let Some(name) = die_at(&environment, &["shell"], place) else { break };
        works(&environment, &name);
        // Nothing half-made is left once the run after it has made its own.
        let volumes = environment.volumes();
        assert!(volumes.iter().all(|name| !name.starts_with(".new-")), "killed at `{name}`: {volumes:?}");
        places.push(name);
    }
    for step in [
        "auto-prune",
        "pre-flight checks",
        "image",
        "the image is loaded",
        "home volume",
        "a home volume is begun",
        "a home volume is filled",
        "a home volume has its name",
        "a record is written beside its place",
        "a record is in its place",
        "the sandbox is not started yet",
        "the sandbox is started",
        "the keeper has a client",
        "sandbox",
    ] {
        assert!(places.iter().any(|place| place == step), "{step} is not among {places:?}");
    }
}

#[test]
fn a_recreation_killed_at_any_step_keeps_the_home() {
    let mut places = Vec::new();
    for place in 1.. {
        let environment = TestEnvironment::new();
        environment.run(&["exec", "true"]).success();
        let kept = home(&environment).join("kept");
        std::fs::write(&kept, "work").unwrap();
        environment.run(&["stop", "--cold"]).success();
        let before = environment.json(&["volume", "inspect"])["name"].clone();
        // Another disk size: only a sandbox made anew can have it.
        let died = die_at(&environment, &["shell", "--disk-size", "5G"], place);
        works(&environment, died.as_deref().unwrap_or("the end"));
        assert_eq!(environment.json(&["volume", "inspect"])["name"], before, "{died:?}");
        assert_eq!(environment.volumes().len(), 1, "{died:?}");
        assert_eq!(
            std::fs::read_to_string(home(&environment).join("kept")).unwrap_or_default(),
            "work",
            "{died:?}"
        );
        let Some(name) = died else { break };
        places.push(name);
    }
    for step in ["the sandbox is removed to be made anew", "the sandbox is at rest"] {
        assert!(places.iter().any(|place| place == step), "{step} is not among {places:?}");
    }
}

#[test]
fn a_migration_killed_at_any_step_leaves_a_whole_home() {
    for place in 1.. {
        let environment = TestEnvironment::new();
        environment.rested(0);
        let before = environment.json(&["volume", "inspect"])["name"].clone();
        let died = die_at(&environment, &["volume", "migrate", "--rm"], place);
        let after = environment.json(&["volume", "inspect"]);
        assert_eq!(after["problem"], serde_json::Value::Null, "{died:?}: {after:#}");
        let recorded = after["name"] != before;
        works(&environment, died.as_deref().unwrap_or("the end"));
        let now = environment.json(&["volume", "inspect"])["name"].clone();
        assert_eq!(now == before, !recorded, "{died:?}");
        if died.is_none() {
            assert!(recorded && environment.volumes().len() == 1);
            break;
        }
    }
}

#[test]
fn a_run_with_a_server_killed_at_any_step_is_made_good_by_the_next() {
    let mut places = Vec::new();
    for place in 1.. {
        let environment = stand_in("opencode");
        let kept = home(&environment).join("kept");
        std::fs::write(&kept, "work").unwrap();
        environment.write("home/config/agents-sandbox/opencode/agent/review.md", "look twice");
        let died = die_at(&environment, &["run", "--agent", "opencode"], place);
        let next = environment.run(&["run", "--agent", "opencode"]);
        assert_eq!(next.code, Some(0), "killed at {died:?}: {next}");
        assert!(next.stdout.contains("attached"), "killed at {died:?}: {next}");
        works(&environment, died.as_deref().unwrap_or("the end"));
        assert_eq!(std::fs::read_to_string(&kept).unwrap_or_default(), "work", "{died:?}");
        let provisioned = kept.with_file_name(".config/opencode/agent/review.md");
        assert_eq!(std::fs::read_to_string(provisioned).unwrap_or_default(), "look twice", "{died:?}");
        let Some(name) = died else { break };
        places.push(name);
    }
    for step in ["provisioning", "daemon", "branch", "agent", "cleanup"] {
        assert!(places.iter().any(|place| place == step), "{step} is not among {places:?}");
    }
}

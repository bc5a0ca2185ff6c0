//! Home volumes, as the user handles them.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use insta::assert_snapshot;

use crate::environment::{TestEnvironment, without_hash};

fn shown(environment: &TestEnvironment, words: &[&str]) -> String {
    without_hash(&environment.run(words).to_string())
}

#[test]
fn they_are_listed_with_capacity_and_date() {
    let environment = TestEnvironment::new();
    assert_snapshot!(shown(&environment, &["volume", "list"]), @"there are no home volumes");
    environment.run(&["exec", "true"]).success();
    let table = shown(&environment, &["volume", "list"]);
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines[0], "NAME KIND SIZE CREATED");
    assert!(lines[1].starts_with("project-HASH-opencode-TIME disk 64G 20"), "{table}");
    let json = environment.json(&["vol", "ls", "--format", "json"]);
    let name = environment.sandbox();
    assert_eq!((&json[0]["current_of"], &json[0]["mounted_by"][0]), (&name.clone().into(), &name.into()));
    assert_eq!(json[0]["size"], 64_u64 << 30);
    assert!(json[0]["used"].as_u64().unwrap() < 32 << 20, "{json:#}");
    assert_eq!(environment.json(&["volume", "inspect"]), json[0]);
    let volume = json[0]["name"].as_str().unwrap();
    assert_eq!(environment.json(&["volume", "inspect", volume]), json[0]);
}

#[test]
fn one_that_is_used_or_recorded_is_not_removed() {
    let environment = TestEnvironment::new();
    environment.rested(0);
    let volume = environment.run(&["volume", "list", "--names"]).success().trim().to_string();
    assert_snapshot!(shown(&environment, &["volume", "remove", &volume]), @"
    error: home volume `project-HASH-opencode-TIME` belongs to sandbox `project-HASH-opencode`, which is stopped
    hint: `agents-sandbox sandbox remove project-HASH-opencode` removes the sandbox first, with its disk
    [exit 1]
    ");
    assert_snapshot!(shown(&environment, &["volume", "remove", "mine"]), @"
    error: there is no home volume `mine`
    hint: `agents-sandbox volume list` shows the home volumes there are
    [exit 1]
    ");
    environment.run(&["sandbox", "remove", &environment.sandbox()]).success();
    let ran = environment.run(&["volume", "remove", "-n", &volume]);
    assert!(ran.stderr.starts_with("would remove"), "{ran}");
    assert_eq!(environment.volumes().len(), 1);
    let ran = environment.run(&["volume", "rm", &volume]);
    assert!(
        ran.stderr.contains("is removed; ") && ran.stderr.contains("current home of a sandbox that is gone"),
        "{ran}"
    );
    assert_eq!(environment.volumes().len(), 0);
}

#[test]
fn reset_and_migrate_make_another_one_current() {
    let environment = TestEnvironment::new();
    assert_snapshot!(shown(&environment, &["volume", "reset"]), @"
    error: sandbox `project-HASH-opencode` has no home volume yet
    hint: `agents-sandbox run` makes one
    [exit 1]
    ");
    environment.rested(0);
    let first = environment.json(&["volume", "inspect"])["name"].clone();
    assert_snapshot!(shown(&environment, &["volume", "migrate", "--dry-run"]), @"would make a new home volume from agents-sandbox/runner-project-HASH:opencode-latest, with the files of the old one; project-HASH-opencode-TIME would be kept");
    assert_eq!(environment.volumes().len(), 1);
    environment.run(&["volume", "migrate"]).success();
    let second = environment.json(&["volume", "inspect"])["name"].clone();
    assert_ne!(first, second);
    assert_eq!(environment.volumes().len(), 2);
    // The sandbox has the one before until it next starts.
    let mounted = || {
        let volumes = environment.json(&["volume", "list", "--format", "json"]);
        let all = volumes.as_array().unwrap();
        all.iter().find(|volume| volume["mounted_by"].as_array().unwrap().len() == 1).unwrap()["name"].clone()
    };
    assert_eq!(mounted(), first);
    environment.run(&["exec", "true"]).success();
    assert_eq!(mounted(), second);
    let ran = environment.run(&["volume", "reset", "--rm"]);
    assert!(ran.stderr.contains("the sandbox runs on with the one before"), "{ran}");
}

#[test]
fn the_old_one_goes_with_rm_only_after_the_new_one_is_recorded() {
    let environment = TestEnvironment::new();
    environment.rested(0);
    let first = environment.json(&["volume", "inspect"])["name"].clone();
    let ran = environment.run(&["volume", "reset", "--rm"]);
    assert!(ran.stderr.contains("is removed"), "{ran}");
    assert_eq!(environment.volumes().len(), 1);
    assert_ne!(environment.json(&["volume", "inspect"])["name"], first);
    assert_eq!(environment.run(&["exec", "true"]).code, Some(0));
}

#[test]
fn a_volume_of_another_sandbox_is_refused() {
    let environment = TestEnvironment::new();
    environment.rested(0);
    environment.run(&["exec", "--agent", "pi", "true"]).success();
    let other =
        environment.json(&["volume", "inspect", "--agent", "pi"])["name"].as_str().unwrap().to_string();
    let ran = environment.run(&["volume", "migrate", &other]);
    assert!(
        ran.stderr.starts_with("error: home volume `") && ran.stderr.contains("belongs to another sandbox"),
        "{ran}"
    );
}

#[test]
fn a_home_can_be_made_by_hand() {
    let environment = TestEnvironment::new();
    environment.rested(0);
    let edit = |script: &str| {
        let mut child = environment
            .command(&["volume", "edit"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    };
    let given_up = edit("exit 3\n");
    assert_eq!(given_up.status.code(), Some(1), "{given_up:?}");
    assert!(
        String::from_utf8_lossy(&given_up.stderr).contains("the shell ended with code 3"),
        "{given_up:?}"
    );
    assert_eq!(environment.volumes().len(), 1);
    let taken = edit("echo by hand\n");
    assert_eq!(taken.status.code(), Some(0), "{taken:?}");
    assert_eq!(taken.stdout, b"by hand\n");
    assert_eq!(environment.volumes().len(), 2);
    assert_eq!(
        environment.run(&["list", "--names"]).success().lines().count(),
        1,
        "the task's sandbox is gone"
    );
}

#[test]
fn a_broken_volume_is_one_row() {
    let environment = TestEnvironment::new();
    environment.rested(0);
    let dir = environment.path("home/data/agents-sandbox/volumes");
    environment.write("home/data/agents-sandbox/volumes/torn-4chyvv5c1qh507-pi-20260101T000000.ext4", "torn");
    std::fs::create_dir(dir.join("folder.ext4")).unwrap();
    let closed = environment.write("home/data/agents-sandbox/volumes/other.ext4", &"x".repeat(4096));
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o600)).unwrap();
    let ran = environment.run(&["volume", "list"]);
    assert_eq!(ran.code, Some(0), "{ran}");
    assert_eq!(ran.stdout.lines().count(), 5, "{ran}");
    for problem in ["it is cut off", "it is not a file", "it holds no ext4 file system"] {
        assert!(ran.stderr.contains(problem), "{ran}");
    }
    // None of them is in the way of the others, and none is taken away.
    environment.run(&["volume", "reset"]).success();
    environment.run(&["df"]).success();
    assert_eq!(environment.volumes().len(), 5);
}

/// Ctrl-C in the middle leaves the old home and no half one.
#[test]
fn an_interrupted_reset_changes_nothing() {
    let environment = TestEnvironment::new();
    environment.rested(0);
    let before = environment.json(&["volume", "inspect"]);
    // A tool that never ends in the place of the one that makes file systems.
    let slow = environment.write("bin/mke2fs", "#!/bin/sh\necho $$ > \"$0.pid\"\nexec sleep 600\n");
    std::fs::set_permissions(&slow, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", environment.path("bin").display(), std::env::var("PATH").unwrap());
    let mut child =
        environment.command(&["volume", "reset"]).env("PATH", path).stderr(Stdio::piped()).spawn().unwrap();
    let begun = std::time::Instant::now();
    let pid = loop {
        let text = std::fs::read_to_string(environment.path("bin/mke2fs.pid")).unwrap_or_default();
        if let Ok(pid) = text.trim().parse::<i32>() {
            break pid;
        }
        assert!(begun.elapsed().as_secs() < 20);
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    assert_eq!(environment.volumes().len(), 2, "one is being made");
    let launcher = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(launcher, rustix::process::Signal::INT).unwrap();
    // The tool hangs, so the program does not wait for it for long.
    let ended = child.wait().unwrap();
    let signal = std::os::unix::process::ExitStatusExt::signal(&ended);
    assert!(signal == Some(2) || ended.code() == Some(130), "{ended}");
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(pid).unwrap(),
        rustix::process::Signal::KILL,
    )
    .unwrap();
    assert_eq!(environment.volumes().len(), 1);
    assert_eq!(environment.json(&["volume", "inspect"]), before);
}

#[test]
fn images_are_inspected_and_removed_by_name() {
    let environment = TestEnvironment::new();
    environment.rested(0);
    let image = environment.json(&["image", "inspect"]);
    let reference = image["reference"].as_str().unwrap().to_string();
    assert_eq!(image["used_by"][0], environment.sandbox(), "{image:#}");
    assert_snapshot!(shown(&environment, &["image", "remove", &reference]), @"
    error: image `agents-sandbox/runner-project-HASH:opencode-latest` is used by sandbox `project-HASH-opencode`
    hint: `agents-sandbox sandbox remove NAME` removes a sandbox; its home volume stays
    [exit 1]
    ");
    environment.run(&["sandbox", "remove", &environment.sandbox()]).success();
    environment.run(&["image", "rm", &reference]).success();
    assert_snapshot!(shown(&environment, &["image", "inspect", &reference]), @"
    error: there is no image `agents-sandbox/runner-project-HASH:opencode-latest`
    hint: `agents-sandbox image list` shows the images there are
    [exit 1]
    ");
}

/// Images of several agents may be the same, byte for byte.
#[test]
fn one_name_of_an_image_is_removed_while_another_is_used() {
    let environment = TestEnvironment::new();
    for agent in ["pi", "opencode"] {
        environment.run(&["exec", "--agent", agent, "true"]).success();
        environment.run(&["stop", "--cold", "--agent", agent]).success();
    }
    let inspect = |agent: &str| environment.json(&["image", "inspect", "--agent", agent]);
    let (one, other) = (inspect("pi"), inspect("opencode"));
    assert_eq!(one["digest"], other["digest"]);
    let reference = one["reference"].as_str().unwrap().to_string();
    let refused = environment.run(&["image", "remove", &reference]);
    assert!(refused.code == Some(1) && refused.stderr.contains("-pi`"), "its own sandbox has it: {refused}");
    let names = environment.run(&["list", "--names"]).success();
    let pi = names.lines().find(|name| name.ends_with("-pi")).unwrap();
    environment.run(&["sandbox", "remove", pi]).success();
    assert_snapshot!(shown(&environment, &["image", "remove", "--dry-run", &reference]), @"would remove agents-sandbox/runner-project-HASH:pi-latest; the image stays as agents-sandbox/runner-project-HASH:opencode-latest");
    assert_snapshot!(shown(&environment, &["image", "remove", &reference]), @"agents-sandbox/runner-project-HASH:pi-latest is removed; the image stays as agents-sandbox/runner-project-HASH:opencode-latest");
    let listed = environment.run(&["image", "list"]).success();
    assert!(!listed.contains("pi-latest") && listed.contains("opencode-latest"), "{listed}");
    let last = environment.run(&["image", "remove", other["reference"].as_str().unwrap()]);
    assert!(last.code == Some(1) && last.stderr.contains("is used by"), "{last}");
}

#[test]
fn without_a_state_file_a_fresh_home_is_made_and_the_old_one_stays() {
    let environment = TestEnvironment::new();
    environment.rested(0);
    let first = environment.volumes();
    environment.run(&["stop", "-f"]).success();
    environment.run(&["exec", "true"]).success();
    let both = environment.volumes();
    assert!(both.len() == 2 && both.contains(&first[0]), "{both:?}");
    assert_ne!(environment.json(&["volume", "inspect"])["name"], first[0].strip_suffix(".ext4").unwrap());
}

/// A record that cannot be read is said, with what to do, and is never written over.
#[test]
fn a_state_file_that_cannot_be_read_is_kept_and_said() {
    let environment = TestEnvironment::new();
    let name = environment.rested(0);
    let checkout = name.strip_suffix("-opencode").unwrap();
    let path = format!("home/state/agents-sandbox/{checkout}/opencode/state.yaml");
    environment.write(&path, "home_volume: [");
    for words in [&["exec", "true"][..], &["volume", "reset"], &["volume", "inspect"]] {
        let ran = environment.run(words);
        assert_eq!(ran.code, Some(1), "{ran}");
    }
    let ran = environment.run(&["exec", "true"]);
    assert!(ran.stderr.contains("state.yaml") && ran.stderr.contains("hint: the file is broken"), "{ran}");
    assert_eq!(std::fs::read_to_string(environment.path(&path)).unwrap(), "home_volume: [");
    // Others go on.
    assert_eq!(environment.run(&["exec", "--agent", "pi", "true"]).code, Some(0));
    assert_eq!(environment.run(&["list", "--names"]).success().lines().count(), 2);
    assert_eq!(environment.run(&["volume", "list", "--names"]).success().lines().count(), 2);
    environment.age(&name, 900);
    let plan = environment.json(&["prune", "--dry-run", "--format", "json"]);
    assert_eq!(plan["volumes"].as_array().unwrap().len(), 0, "it may be the current one: {plan:#}");
}

#[test]
fn a_lock_that_is_a_folder_is_said_and_hurts_nobody_else() {
    let environment = TestEnvironment::new();
    let name = environment.rested(0);
    let checkout = name.strip_suffix("-opencode").unwrap();
    let lock = environment.path(&format!("home/state/agents-sandbox/locks/{checkout}/opencode.lock"));
    std::fs::remove_file(&lock).unwrap();
    std::fs::create_dir(&lock).unwrap();
    let ran = environment.run(&["exec", "true"]);
    assert_eq!(ran.code, Some(1), "{ran}");
    assert!(ran.stderr.contains("opencode.lock"), "{ran}");
    assert_eq!(environment.run(&["list"]).code, Some(0));
    assert_eq!(environment.run(&["df"]).code, Some(0));
    assert_eq!(environment.run(&["exec", "--agent", "pi", "true"]).code, Some(0));
    assert!(lock.is_dir());
    std::fs::remove_dir(&lock).unwrap();
}

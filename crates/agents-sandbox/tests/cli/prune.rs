//! `prune`, and the prunes of one kind.

use std::os::unix::fs::{DirBuilderExt, PermissionsExt};

use insta::assert_snapshot;

use crate::environment::{TestEnvironment, without_hash};
use crate::tmux::Tmux;

const NOTHING: &str =
    "there is nothing to remove; `agents-sandbox storage list` says why what is there stays\n";

#[test]
fn a_dry_run_shows_what_would_go_and_removes_nothing() {
    let environment = TestEnvironment::new();
    let name = environment.rested(8);
    let ran = environment.run(&["prune", "--dry-run"]);
    let text = without_hash(&ran.to_string());
    assert_eq!(ran.code, Some(0), "{ran}");
    for line in [
        "KIND NAME SIZE",
        "sandbox project-HASH-opencode",
        "home volume project-HASH-opencode-TIME",
        "image agents-sandbox/runner-project-HASH:opencode-latest",
    ] {
        assert!(text.contains(line), "{text}");
    }
    assert!(ran.stderr.starts_with("would remove 1 sandbox, 1 home volume, 1 image, "), "{ran}");
    let json = environment.json(&["prune", "--dry-run", "--format", "json"]);
    assert_eq!((&json["dry_run"], &json["sandboxes"][0]), (&true.into(), &name.clone().into()), "{json:#}");
    assert_eq!(environment.sandbox(), name);
    assert_eq!(environment.volumes().len(), 1);
}

/// An engine that only looks would make its storage, and a folder for it where a reboot alone clears up.
#[test]
fn a_dry_run_makes_nothing_for_an_engine_that_has_nothing() {
    let environment = TestEnvironment::new();
    let program =
        environment.write("bin/buildah", "#!/bin/sh\necho \"$*\" >> \"$HOME/../asked\"\necho '[]'\n");
    std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let dry_run = || {
        let mut command = environment.command(&["prune", "--dry-run"]);
        let of_machine = std::env::var_os("PATH").unwrap_or_default();
        let path = std::iter::once(environment.path("bin")).chain(std::env::split_paths(&of_machine));
        command.env("PATH", std::env::join_paths(path).unwrap());
        command.env_remove("AGENTS_SANDBOX_FAKE_RUNTIME").env("AGENTS_SANDBOX_IMAGE_ENGINE", "buildah");
        let ran = environment.finish(&mut command);
        assert_eq!(ran.code, Some(0), "{ran}");
        let asked = environment.path("asked").exists();
        let folders = std::fs::read_dir(environment.path("run")).unwrap().count();
        (asked, folders, environment.path("home/data/agents-sandbox/engine").exists())
    };
    assert_eq!(dry_run(), (false, 0, false));
    // The door beside the wall: a storage is looked at.
    let storage = environment.path("home/data/agents-sandbox/engine/storage");
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(storage).unwrap();
    assert!(dry_run().0, "buildah is asked");
}

#[test]
fn without_a_terminal_only_yes_removes() {
    let environment = TestEnvironment::new();
    let name = environment.rested(8);
    assert_snapshot!(environment.run(&["prune"]), @"
    error: nothing was removed: there is no terminal to ask on
    hint: `agents-sandbox prune --yes` removes without asking
    hint: `agents-sandbox prune --dry-run` shows what would be removed
    [exit 1]
    ");
    assert_eq!(environment.sandbox(), name);
    let ran = environment.run(&["prune", "--yes"]);
    assert!(ran.stderr.starts_with("removed 1 sandbox, 1 home volume, 1 image; "), "{ran}");
    assert_eq!(environment.run(&["list", "--names"]).success(), "");
    assert_eq!(environment.volumes().len(), 0);
    assert_eq!(environment.run(&["prune", "-y"]).stderr, NOTHING);
    assert_eq!(environment.run(&["exec", "true"]).code, Some(0), "the next run makes everything anew");
}

#[test]
fn a_person_is_asked_and_no_is_what_enter_means() {
    let environment = TestEnvironment::new();
    environment.rested(8);
    let tmux = Tmux::new(&environment);
    tmux.fresh("$P prune; echo \"code $?\"");
    let screen = tmux.wait_for("[y/N]");
    assert!(
        screen.contains("home volume: the agent's settings, sessions and files in it are lost"),
        "{screen}"
    );
    tmux.key("Enter");
    tmux.wait_for_line("code 0");
    tmux.wait_for("nothing was removed");
    assert_eq!(environment.volumes().len(), 1);
    tmux.fresh("$P prune; echo \"code $?\"");
    tmux.wait_for("[y/N]");
    tmux.key("C-c");
    tmux.wait_for_line("code 130");
    assert_eq!(environment.volumes().len(), 1);
    tmux.fresh("$P prune; echo \"code $?\"");
    tmux.wait_for("[y/N]");
    tmux.line("y");
    tmux.wait_for_line("code 0");
    assert_eq!(environment.volumes().len(), 0);
}

#[test]
fn age_comes_from_the_flag_then_the_settings_then_a_week() {
    let environment = TestEnvironment::new();
    environment.rested(6);
    let sandboxes = |words: &[&str]| {
        let words: Vec<&str> = words.iter().copied().chain(["--dry-run", "--format", "json"]).collect();
        environment.json(&words)["sandboxes"].as_array().unwrap().len()
    };
    assert_eq!(sandboxes(&["prune"]), 0);
    assert_eq!(sandboxes(&["prune", "--older-than", "5d"]), 1);
    assert_eq!(sandboxes(&["prune", "-a", "120h"]), 1, "the former name");
    assert_eq!(sandboxes(&["prune", "--age", "1w"]), 0, "the former name");
    environment.write("home/config/agents-sandbox/config.yaml", "manual-prune-age: 5d\n");
    assert_eq!(sandboxes(&["prune"]), 1);
    assert_eq!(sandboxes(&["prune", "--older-than", "7d"]), 0, "the flag wins");
    for wrong in ["", "7", "x", "-1d", "0s", "1d12h"] {
        let ran = environment.run(&["prune", "--older-than", wrong, "--dry-run"]);
        assert_eq!(ran.code, Some(2), "{wrong:?}: {ran}");
        assert!(ran.stderr.contains("--older-than"), "{wrong:?}: {ran}");
    }
}

#[test]
fn a_projects_own_age_is_not_believed_unseen() {
    let environment = TestEnvironment::new();
    environment.rested(3);
    environment.write("project/.agents-sandbox/config.yaml", "manual-prune-age: 1s\nauto-prune-age: 1s\n");
    let ran = environment.run(&["sandbox", "prune", "--dry-run"]);
    assert!(ran.stderr.contains("not approved"), "{ran}");
    // With an age of the user's own the project has no say.
    let ran = environment.run(&["prune", "--older-than", "9d", "--yes"]);
    assert_eq!(ran.stderr, NOTHING, "{ran}");
    assert_eq!(environment.volumes().len(), 1);
}

#[test]
fn one_kind_alone_leaves_the_others() {
    let environment = TestEnvironment::new();
    let name = environment.rested(8);
    // The home and the image of a sandbox that still exists stay.
    assert_eq!(environment.run(&["volume", "prune", "--yes"]).stderr, NOTHING);
    assert_eq!(environment.run(&["image", "prune", "--yes"]).stderr, NOTHING);
    assert_eq!(environment.sandbox(), name);
    let ran = environment.run(&["sandbox", "prune", "--yes"]);
    assert!(ran.stderr.starts_with("removed 1 sandbox; "), "{ran}");
    assert_eq!(environment.volumes().len(), 1);
    // Now nothing needs the image; the home of a project without a sandbox is user data.
    let ran = environment.run(&["prune", "--yes"]);
    assert!(ran.stderr.starts_with("removed 1 image; "), "{ran}");
    assert_eq!(environment.volumes().len(), 1);
}

#[test]
fn what_runs_is_never_removed() {
    let environment = TestEnvironment::new();
    environment.run(&["exec", "true"]).success();
    let name = environment.sandbox();
    environment.age(&name, 900);
    assert_eq!(environment.run(&["prune", "--yes"]).stderr, NOTHING);
    assert_eq!(environment.sandbox(), name);
}

#[test]
fn a_run_prunes_first_without_a_word() {
    let environment = TestEnvironment::new();
    environment.run(&["exec", "--agent", "pi", "true"]).success();
    environment.run(&["stop", "--agent", "pi"]).success();
    let old = environment.sandbox();
    environment.age(&old, 29);
    let ran = environment.run(&["shell", "--agent", "claude-code"]);
    assert_eq!(ran.stdout, "", "{ran}");
    assert!(environment.run(&["list", "--names"]).success().contains(&old), "29 days are not 30");
    environment.age(&old, 2);
    let ran = environment.run(&["shell", "--agent", "claude-code"]);
    assert!(!ran.to_string().contains("prun"), "{ran}");
    assert!(!environment.run(&["list", "--names"]).success().contains(&old));
    environment.run(&["kill", "-f", "--agent", "claude-code"]).success();
}

#[test]
fn a_run_goes_on_where_pruning_fails() {
    let environment = TestEnvironment::new();
    // A folder of volumes that is none, and a record that is none.
    environment.write("runtime/sandboxes/torn-opencode/record.json", "{");
    let ran = environment.run(&["shell"]);
    assert_eq!(ran.code, Some(0), "{ran}");
}

#[test]
fn what_a_killed_command_left_goes() {
    let environment = TestEnvironment::new();
    let name = environment.rested(0);
    let left =
        environment.write(&format!("home/data/agents-sandbox/volumes/.new-{name}.abc/home.ext4"), "half");
    let ran = environment.run(&["volume", "prune", "--yes"]);
    assert!(ran.stderr.starts_with("removed 1 unfinished home volume; "), "{ran}");
    assert!(!left.exists());
    assert_eq!(environment.volumes().len(), 1);
}

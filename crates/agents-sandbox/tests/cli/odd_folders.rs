//! Folders and files that are not what they should be.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use insta::assert_snapshot;

use crate::environment::TestEnvironment;

#[test]
fn a_folder_that_was_removed_under_the_shell_is_said() {
    let environment = TestEnvironment::new();
    fs::create_dir(environment.path("gone")).unwrap();
    let script = format!("rmdir ../gone; exec {} exec true", env!("CARGO_BIN_EXE_agents-sandbox"));
    let mut command = Command::new("sh");
    command.args(["-c", &script]).current_dir(environment.path("gone")).stdin(Stdio::null());
    environment.seal(&mut command);
    assert_snapshot!(environment.finish(&mut command), @r#"
    error: the current folder was removed
    hint: `cd` to the project's folder; where it was made again, `cd "$PWD"` is enough
    [exit 1]
    "#);
}

#[test]
fn settings_are_in_a_folder_of_the_projects_own() {
    let environment = TestEnvironment::new();
    let file = environment.write("project/.agents-sandbox", "agent: pi\n");
    assert_snapshot!(environment.run(&["exec", "true"]), @"
    error: $ROOT/project/.agents-sandbox is a file, and must be a folder
    hint: the project's settings are the file `config.yaml` in it, and its Dockerfile another
    [exit 1]
    ");
    fs::remove_file(&file).unwrap();
    environment.write("elsewhere/config.yaml", "agent: pi\n");
    symlink(environment.path("elsewhere"), &file).unwrap();
    let ran = environment.run(&["exec", "true"]);
    assert!(ran.code == Some(1) && ran.stderr.contains("is a link, and must be a folder"), "{ran}");
    // Whoever works in the sandbox keeps nobody from ending it.
    let ran = environment.run(&["stop"]);
    assert!(ran.code == Some(0) && ran.stderr.contains("the project's settings are left out"), "{ran}");
    fs::remove_file(&file).unwrap();
    environment.write("project/.agents-sandbox/config.yaml", "agent: pi\n");
    environment.run(&["exec", "true"]).success();
    assert!(environment.sandbox().ends_with("-pi"));
}

#[test]
fn no_link_of_the_projects_brings_a_file_of_this_computer_in() {
    let environment = TestEnvironment::new();
    let secret = environment.write("secret", "TOKEN=hunter2\n");
    fs::create_dir(environment.project().join(".agents-sandbox")).unwrap();
    for (name, words) in [("env", ["exec", "--", "env"]), ("config.yaml", ["config", "show", "--origin"])] {
        let link = environment.project().join(".agents-sandbox").join(name);
        symlink(&secret, &link).unwrap();
        let ran = environment.run(&words);
        assert_eq!(ran.code, Some(1), "{ran}");
        let text = format!("$ROOT/project/.agents-sandbox/{name} leads out of the checkout, to $ROOT/secret");
        assert!(ran.stderr.contains(&text) && !ran.to_string().contains("hunter2"), "{ran}");
        fs::remove_file(&link).unwrap();
    }
    // One that stays in the checkout is a file of the project's like any other.
    environment.write("project/variables", "COLOUR=red\n");
    symlink("../variables", environment.project().join(".agents-sandbox/env")).unwrap();
    let ran = environment.run(&["--yes", "exec", "--", "sh", "-c", "echo $COLOUR"]);
    assert_eq!(ran.stdout, "red\n", "{ran}");
}

#[test]
fn durations_below_nothing_and_a_tmp_above_everything_are_refused_by_name() {
    let environment = TestEnvironment::new();
    assert_snapshot!(environment.run(&["run", "--keep", "-1h"]), @"
    error: invalid value '-1h' for '--keep <DURATION>': `-1h` is not a duration; write for example 10s, 90m, 24h, 7d, 2w or 1h30m

    For more information, try '--help'.
    [exit 2]
    ");
    assert_snapshot!(environment.run(&["shell", "--memory", "1G", "--tmp-size", "2G"]), @"
    error: tmp-size: 2G is more than the 1G of memory that the sandbox has, and /tmp is memory
    hint: write at most 1G
    hint: it is set by --tmp-size
    [exit 2]
    ");
}

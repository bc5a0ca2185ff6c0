//! What goes wrong on the computer itself: full disks, machines that are killed, sandboxes of other folders.

use std::process::Command;

use insta::assert_snapshot;

use crate::environment::{Ran, TestEnvironment, without_hash};

/// Runs a script of the shell where the state folder is a small disk of its own; `$P` is the program.
fn on_a_small_disk(environment: &TestEnvironment, script: &str) -> Ran {
    let begin = format!(
        "mkdir -p \"$XDG_STATE_HOME\"
         mount -t tmpfs -o size=2m,mode=0700 tmpfs \"$XDG_STATE_HOME\"
         fill() {{ dd if=/dev/zero of=\"$XDG_STATE_HOME/fill\" bs=4k 2>/dev/null || true; }}
         P={}
         {script}",
        env!("CARGO_BIN_EXE_agents-sandbox")
    );
    let mut command = Command::new("unshare");
    if rustix::process::geteuid().is_root() {
        command.args(["--mount", "sh", "-uc", &begin]);
    } else {
        command.args(["--user", "--map-current-user", "--keep-caps", "--mount", "sh", "-uc", &begin]);
    }
    environment.seal(command.current_dir(environment.project()));
    environment.finish(&mut command)
}

#[test]
fn a_full_state_folder_is_noticed_before_anything_is_ended_or_made() {
    let environment = TestEnvironment::new();
    let config = "auto-stop: stop\nauto-stop-timeout: 10m\n";
    environment.write("home/config/agents-sandbox/config.yaml", config);
    let script = r#"
        boot() { $P sandbox inspect | sed -n 's/.*"boot_id": "\(.*\)".*/\1/p'; }
        volumes() { ls "$XDG_DATA_HOME/agents-sandbox/volumes" 2>/dev/null | wc -l; }
        sandboxes() { $P list --names | wc -l; }
        fill
        $P exec true; echo "first: $?, $(volumes) volumes, $(sandboxes) sandboxes"
        rm "$XDG_STATE_HOME/fill"
        $P -q exec true; echo "with space: $?, $(volumes) volumes, $(sandboxes) sandboxes"
        before=$(boot)
        fill
        $P shell --disk-size 5G </dev/null; echo "another disk: $?, $(volumes) volumes"
        [ -n "$before" ] && [ "$(boot)" = "$before" ] && echo "it runs on"
        $P stop; echo "stop: $?"
        $P shell --disk-size 5G </dev/null; echo "at rest: $?, $(volumes) volumes, $(sandboxes) sandboxes"
        rm "$XDG_STATE_HOME/fill"
        $P -l warning shell --disk-size 5G </dev/null; echo "with space: $?, $(volumes) volumes"
    "#;
    let ran = on_a_small_disk(&environment, script);
    assert_snapshot!(ran.stdout, @"
    first: 1, 0 volumes, 0 sandboxes
    with space: 0, 1 volumes, 1 sandboxes
    another disk: 1, 1 volumes
    it runs on
    stop: 0
    at rest: 1, 1 volumes, 1 sandboxes
    with space: 0, 1 volumes
    ");
    // The first is the record of the folder itself.
    let full = |begin: &str| ran.stderr.matches(&format!("{begin} $ROOT/home/state/agents-sandbox/")).count();
    assert_eq!((full("cannot write"), full("cannot write in")), (1, 2), "{ran}");
    assert_eq!(ran.stderr.matches("hint: free some space on that disk").count(), 3, "{ran}");
}

#[test]
fn doctor_tells_of_folders_that_are_full_or_cannot_be_written() {
    let environment = TestEnvironment::new();
    let script = r#"
        row() { $P doctor --format json | tr -d '\n' | sed "s/},/}\n/g" | grep "\"$1\"" | grep -o '"grade": "[a-z]*"'; }
        mkdir -m 700 "$XDG_STATE_HOME/agents-sandbox"
        echo "empty: $(row 'disk space') $(row folders)"
        fill
        echo "full: $(row 'disk space') $(row folders)"
        mount -o remount,ro "$XDG_STATE_HOME"
        echo "read-only: $(row folders)"
    "#;
    assert_snapshot!(on_a_small_disk(&environment, script).stdout, @r#"
    empty: "grade": "note" "grade": "good"
    full: "grade": "missing" "grade": "good"
    read-only: "grade": "missing"
    "#);
}

/// What makes the sandbox's machine end as if its power was cut.
fn cut_power(environment: &TestEnvironment) {
    let boot = environment.path("runtime/sandboxes").join(environment.sandbox()).join("boot.json");
    let boot: serde_json::Value = serde_json::from_slice(&std::fs::read(boot).unwrap()).unwrap();
    let pid = i32::try_from(boot["pid"].as_i64().unwrap()).unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let begun = std::time::Instant::now();
    while environment.json(&["list", "--format", "json"])[0]["status"] != "crashed" {
        assert!(begun.elapsed() < std::time::Duration::from_secs(20));
    }
}

#[test]
fn a_machine_that_was_killed_is_not_said_to_be_stopped() {
    let environment = TestEnvironment::new();
    for words in [&["stop"][..], &["stop", "--cold"], &["kill"]] {
        environment.run(&["exec", "true"]).success();
        cut_power(&environment);
        let ran = environment.run(words);
        assert_eq!(ran.code, Some(0), "{ran}");
        insta::allow_duplicates! {
            assert_snapshot!(without_hash(&ran.to_string()), @"
            warning: project-HASH-opencode had ended before, and not in good order (crashed)
            `agents-sandbox logs project-HASH-opencode` shows how it ended; the next run starts it again
            ");
        }
    }
}

#[test]
fn a_sandbox_is_ended_by_its_name_from_anywhere() {
    let environment = TestEnvironment::new();
    environment.run(&["exec", "true"]).success();
    let name = environment.sandbox();
    let elsewhere = |words: &[&str]| {
        let mut command = environment.command(words);
        let ran = environment.finish(command.current_dir(environment.path("home")));
        without_hash(&ran.to_string())
    };
    assert!(elsewhere(&["stop"]).starts_with("there is no sandbox home-"), "the folder's own is meant");
    assert_snapshot!(elsewhere(&["stop", "-n", &name]), @"would stop project-HASH-opencode");
    assert_snapshot!(elsewhere(&["stop", "--cold", &name]), @"project-HASH-opencode is stopped");
    environment.run(&["exec", "true"]).success();
    assert_snapshot!(elsewhere(&["kill", &name]), @"project-HASH-opencode is powered off");
    assert_snapshot!(elsewhere(&["kill", "no-such-sandbox"]), @"
    error: there is no sandbox `no-such-sandbox`
    hint: `agents-sandbox list` shows the sandboxes there are
    [exit 1]
    ");
    let both = elsewhere(&["stop", "--agent", "pi", &name]);
    assert!(both.contains("cannot be used with '[NAME]'") && both.contains("[exit 2]"), "{both}");
    let path = elsewhere(&["stop", "../x"]);
    assert!(path.contains("invalid value '../x' for '[NAME]'") && path.contains("[exit 2]"), "{path}");
}

#[test]
fn a_flag_that_exec_does_not_know_is_not_taken_for_the_command() {
    let environment = TestEnvironment::new();
    assert_snapshot!(environment.run(&["exec", "--foo", "true"]), @"
    error: unexpected argument '--foo' found

      tip: a similar argument exists: '--root'
      tip: to pass '--foo' as a value, use '-- --foo'

    Usage: agents-sandbox exec --root <COMMAND>...

    For more information, try '--help'.
    [exit 2]
    ");
    // After the command, and after `--`, every word is the command's.
    assert_eq!(environment.run(&["exec", "echo", "--root", "-x"]).success(), "--root -x\n");
    let ran = environment.run(&["exec", "--", "--foo"]);
    assert_eq!(ran.code, Some(127), "{ran}");
}

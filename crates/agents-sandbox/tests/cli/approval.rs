//! What the project's own files widen takes effect only once it is approved.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use insta::assert_snapshot;
use serde_json::Value;

use crate::environment::{Ran, TestEnvironment};
use crate::tmux::Tmux;

const CONFIG: &str = "project/.agents-sandbox/config.yaml";
const ENV: &str = "project/.agents-sandbox/env";
const DOCKERFILE: &str = "project/.agents-sandbox/Dockerfile";

fn opened() -> TestEnvironment {
    let environment = TestEnvironment::new();
    environment.write(CONFIG, "memory: 1G\nnetwork:\n  egress-allow: [\"host:8080\"]\n");
    environment
}

#[track_caller]
fn assert_refused(environment: &TestEnvironment, ran: &Ran, entry: &str) {
    assert_eq!(ran.code, Some(1), "{ran}");
    assert!(ran.stderr.contains("that is not approved") && ran.stderr.contains(entry), "{ran}");
    assert_eq!(sandboxes(environment), "", "nothing is started");
}

fn sandboxes(environment: &TestEnvironment) -> String {
    environment.run(&["list", "--names"]).success()
}

fn spec(environment: &TestEnvironment) -> Value {
    let shown = environment.run(&["sandbox", "inspect"]).success();
    serde_json::from_str::<Value>(&shown).unwrap()["spec"].clone()
}

fn end(environment: &TestEnvironment) {
    environment.run(&["kill", "--force"]).success();
}

#[test]
fn without_a_terminal_nothing_is_started_and_everything_is_named() {
    let environment = opened();
    environment.write(ENV, "TOKEN=s3cret\n");
    environment.write(DOCKERFILE, "FROM agents-sandbox\nRUN id\n");
    assert_snapshot!(environment.run(&["exec", "true"]), @"
    error: this project's own files would widen what its sandbox may do, and that is not approved
      │ .agents-sandbox/config.yaml:3  network.egress-allow: host:8080
      │ .agents-sandbox/env  env TOKEN
      │ .agents-sandbox/Dockerfile  Dockerfile: runs on this machine's image engine (2 lines, sha256 545e00cc75d9)
    hint: `agents-sandbox config approve` shows it and asks; with --yes it approves without asking
    [exit 1]
    ");
    assert_eq!(sandboxes(&environment), "");
    for words in [&["run"][..], &["shell"], &["build"], &["exec", "true"], &["config", "approve"]] {
        assert_refused(&environment, &environment.run(words), "network.egress-allow: host:8080");
    }
}

#[test]
fn what_starts_nothing_never_asks() {
    let environment = opened();
    for words in [&["stop"][..], &["kill"], &["list"], &["run", "--dry-run"], &["config", "show"]] {
        environment.run(words).success();
    }
    let warning =
        "set by the project and not approved: network.egress-allow; `agents-sandbox config approve` asks";
    for words in [&["config", "show"][..], &["run", "--dry-run"], &["build", "--dry-run"]] {
        let told = environment.run(words).stderr;
        assert!(told.contains(warning), "{told}");
    }
    environment.run(&["config", "approve", "--yes"]).success();
    assert_eq!(environment.run(&["config", "show"]).stderr, "");
}

#[test]
fn what_tightens_or_sizes_never_asks() {
    let environment = TestEnvironment::new();
    environment
        .write(CONFIG, "memory: 1G\nnetwork: {profile: none, egress-deny: [a.example]}\ndocker: false\n");
    environment.write("project/.agents-sandbox/opencode/opencode-x.json", "{}");
    environment.run(&["exec", "true"]).success();
    assert!(
        !environment
            .path("home/state/agents-sandbox")
            .read_dir()
            .unwrap()
            .any(|folder| { folder.unwrap().path().join("approvals.json").exists() })
    );
}

#[test]
fn yes_approves_for_later_runs_too_and_the_value_takes_effect() {
    let environment = opened();
    environment.write(ENV, "GREETING=hello\n");
    let words = ["exec", "--", "printenv", "GREETING"];
    let ran = environment.run(&["exec", "--yes", "--", "printenv", "GREETING"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "hello\n"), "{ran}");
    let told = "approved, as you said yes to everything: network.egress-allow, env GREETING\n";
    assert!(ran.stderr.contains(told), "{ran}");
    assert_eq!(spec(&environment)["network"]["egress-allow"][0], "host:8080");
    let ran = environment.run(&words);
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(0), "hello\n", ""), "{ran}");
    let record = approvals(&environment);
    assert_eq!(std::fs::metadata(&record).unwrap().permissions().mode() & 0o777, 0o600);
    let text = std::fs::read_to_string(&record).unwrap();
    assert!(!text.contains("hello"), "values are kept as hashes only: {text}");
}

fn approvals(environment: &TestEnvironment) -> std::path::PathBuf {
    let folders = environment.path("home/state/agents-sandbox").read_dir().unwrap();
    let mut records = folders.map(|folder| folder.unwrap().path().join("approvals.json"));
    records.find(|record| record.exists()).unwrap()
}

#[test]
fn the_users_settings_and_environment_can_say_yes_but_not_the_project() {
    let environment = opened();
    let mut command = environment.command(&["exec", "true"]);
    environment.finish(command.env("AGENTS_SANDBOX_YES", "true")).success();
    let environment = opened();
    environment.write("home/config/agents-sandbox/config.yaml", "yes: true\n");
    environment.run(&["exec", "true"]).success();
    let environment = opened();
    environment.write(CONFIG, "yes: true\ndocker: true\n");
    let ran = environment.run(&["exec", "true"]);
    assert!(ran.code == Some(1) && ran.stderr.contains("a project's file cannot set `yes`"), "{ran}");
}

#[test]
fn what_changes_asks_again_and_what_goes_is_forgotten() {
    let environment = opened();
    environment.run(&["exec", "--yes", "true"]).success();
    end(&environment);
    let former = std::fs::read_to_string(environment.path(CONFIG)).unwrap();
    for change in
        [former.replace("8080", "8081"), former.replace("[\"host:8080\"]", "[\"host:8080\", \"*\"]")]
    {
        environment.write(CONFIG, &change);
        assert_refused(&environment, &environment.run(&["exec", "true"]), "network.egress-allow: host:808");
    }
    environment.write(CONFIG, &former);
    assert_refused(&environment, &environment.run(&["exec", "true"]), "host:8080");
    // Lines that move and sizes that change are no other text.
    environment.run(&["config", "approve", "--yes"]).success();
    environment.write(CONFIG, &former.replace("memory: 1G", "# a remark\nmemory: 2G"));
    environment.run(&["exec", "true"]).success();
}

#[test]
fn another_checkout_is_another_approval() {
    let environment = opened();
    environment.run(&["config", "approve", "--yes"]).success();
    let text = std::fs::read_to_string(environment.path(CONFIG)).unwrap();
    environment.write("other/.agents-sandbox/config.yaml", &text);
    let mut command = environment.command(&["exec", "true"]);
    let ran = environment.finish(command.current_dir(environment.path("other")));
    assert_refused(&environment, &ran, "host:8080");
}

#[test]
fn variables_count_by_their_exact_text() {
    let environment = TestEnvironment::new();
    environment.write(ENV, "# a remark\nA=1\nB=2\n");
    let ran = environment.run(&["exec", "true"]);
    assert_refused(&environment, &ran, ".agents-sandbox/env  env B");
    environment.run(&["config", "approve", "--yes"]).success();
    environment.write(ENV, "B=2\nA=1\n");
    environment.run(&["exec", "true"]).success();
    end(&environment);
    environment.write(ENV, "B=2\nA=1 \n");
    let ran = environment.run(&["exec", "true"]);
    assert_refused(&environment, &ran, "env A");
    assert!(!ran.stderr.contains("env B"), "{ran}");
}

#[test]
fn the_dockerfile_counts() {
    let environment = TestEnvironment::new();
    environment.write(DOCKERFILE, "FROM agents-sandbox\nRUN id\n");
    for words in [&["build"][..], &["exec", "true"]] {
        assert_refused(
            &environment,
            &environment.run(words),
            "Dockerfile: runs on this machine's image engine",
        );
    }
    environment.run(&["build", "--yes"]).success();
    environment.run(&["exec", "true"]).success();
    end(&environment);
    environment.write(DOCKERFILE, "FROM agents-sandbox\nRUN id \n");
    assert_refused(&environment, &environment.run(&["exec", "true"]), "Dockerfile: runs");
}

#[test]
fn a_state_folder_in_the_checkout_remembers_nothing() {
    let environment = opened();
    let run = |words: &[&str]| {
        let mut command: Command = environment.command(words);
        environment.finish(command.env("XDG_STATE_HOME", environment.path("project/state")))
    };
    let ran = run(&["config", "approve", "--yes"]);
    assert!(ran.code == Some(0) && ran.stderr.contains("the approval holds for this time only"), "{ran}");
    let ran = run(&["exec", "true"]);
    assert!(ran.code == Some(1) && ran.stderr.contains("that is not approved"), "{ran}");
}

#[test]
fn the_list_says_what_is_approved() {
    let environment = opened();
    environment.run(&["config", "approve", "--yes"]).success();
    environment.write(ENV, "A=\x1b[31m1\n");
    assert_snapshot!(environment.run(&["config", "approve", "--list"]), @"
    APPROVED  FILE                           SETTING               VALUE
    yes       .agents-sandbox/config.yaml:3  network.egress-allow  host:8080
    no        .agents-sandbox/env            env A                 1
    ");
    let environment = TestEnvironment::new();
    assert_snapshot!(environment.run(&["config", "approve", "--list"]), @"this project's files widen nothing");
}

#[test]
fn on_a_terminal_the_user_is_asked() {
    let environment = opened();
    environment.write(ENV, "A=1\x1b[2J\n");
    let tmux = Tmux::new(&environment);
    let ask = |answer: &[&str]| {
        tmux.fresh("$P exec -- echo 'it runs'; echo \"code $?\"");
        let screen = tmux.wait_for("Approve these 2? [y/N]");
        for key in answer {
            tmux.key(key);
        }
        screen
    };
    let screen = ask(&["n", "Enter"]);
    let shown: Vec<&str> = screen.lines().filter(|line| line.starts_with(['T', ' '])).collect();
    assert_snapshot!(shown.join("\n"), @"
    This project's own files would widen what its sandbox may do:
      .agents-sandbox/config.yaml:3  network.egress-allow: host:8080
      .agents-sandbox/env  env A: 1
    ");
    let screen = tmux.wait_for_line("code 1");
    assert!(screen.contains("error: not approved, so nothing was started"), "{screen}");
    // Enter alone is no, and so is Ctrl-C; the terminal is as it was.
    ask(&["Enter"]);
    tmux.wait_for_line("code 1");
    ask(&["C-c"]);
    tmux.wait_for_line("code 130");
    assert_eq!(tmux.fact("#{cursor_flag}"), "1");
    assert_eq!(sandboxes(&environment), "");
    ask(&["y", "Enter"]);
    tmux.wait_for_line("it runs");
    tmux.wait_for_line("code 0");
    tmux.fresh("$P exec -- echo again");
    let screen = tmux.wait_for_line("again");
    assert!(!screen.contains("Approve"), "{screen}");
}

#[test]
fn what_is_approved_elsewhere_while_somebody_is_asked_stays_approved() {
    let environment = opened();
    let tmux = Tmux::new(&environment);
    tmux.fresh("$P exec -- echo 'it runs'; echo \"code $?\"");
    tmux.wait_for("Approve this? [y/N]");
    assert_eq!(environment.run_at_once(&["stop"]).code, Some(0));
    let asked_about = std::fs::read_to_string(environment.path(CONFIG)).unwrap();
    environment.write(CONFIG, &asked_about.replace("8080", "8081"));
    environment.run_at_once(&["config", "approve", "--yes"]).success();
    tmux.key("y");
    tmux.key("Enter");
    tmux.wait_for_line("it runs");
    tmux.wait_for_line("code 0");
    assert_eq!(spec(&environment)["network"]["egress-allow"][0], "host:8080", "what was asked about");
    end(&environment);
    environment.run(&["exec", "true"]).success();
    assert_eq!(spec(&environment)["network"]["egress-allow"][0], "host:8081");
}

#[test]
fn what_the_dockerfile_may_copy_is_part_of_what_is_approved() {
    let environment = TestEnvironment::new();
    environment.write(DOCKERFILE, "FROM agents-sandbox/runner-base\nCOPY setup.sh /\nRUN /setup.sh\n");
    environment.write("project/.agents-sandbox/setup.sh", "true\n");
    let asked = environment.run(&["exec", "true"]);
    assert_refused(&environment, &asked, "with the file that it may copy (3 lines");
    environment.run(&["config", "approve", "--yes"]).success();
    environment.run(&["exec", "true"]).success();
    end(&environment);
    environment.write("project/.agents-sandbox/setup.sh", "curl evil.example\n");
    assert_refused(&environment, &environment.run(&["exec", "true"]), ".agents-sandbox/Dockerfile");
}

/// Whoever works in a sandbox can remove the checkout's `.git`. The folder is part of the repository around
/// it then, which the next run would put into the sandbox.
#[test]
fn a_checkout_without_its_git_folder_does_not_become_all_that_lies_around_it() {
    let environment = TestEnvironment::new();
    let git = |folder: &str| {
        let made = Command::new("git").arg("init").arg("-q").arg(environment.path(folder)).status().unwrap();
        assert!(made.success());
    };
    let inner = environment.path("project/inner");
    git("project");
    git("project/inner");
    let exec = |words: &[&str]| {
        let mut command = environment.command(words);
        environment.finish(command.current_dir(&inner))
    };
    let workspace = || {
        let shown = exec(&["sandbox", "inspect"]);
        serde_json::from_slice::<Value>(&shown.raw_stdout).unwrap()["spec"]["workspace"]["source"].clone()
    };
    exec(&["exec", "true"]).success();
    assert_eq!(workspace(), inner.to_str().unwrap());
    exec(&["kill", "--force"]).success();

    std::fs::remove_dir_all(inner.join(".git")).unwrap();
    let ran = exec(&["exec", "true"]);
    assert_refused(&environment, &ran, "`inner` is no checkout of its own any more: its .git is gone");
    // The user may want just that: once they said so, it is so.
    exec(&["exec", "--yes", "true"]).success();
    assert_eq!(workspace(), environment.path("project").to_str().unwrap());
    exec(&["exec", "true"]).success();
    exec(&["kill", "--force"]).success();
}

/// The guest writes `.git`: with another remote in it the next sandbox would have the user's settings for that one.
#[test]
fn settings_for_another_remote_are_not_had_without_a_yes() {
    let environment = TestEnvironment::new();
    let git = |words: &[&str]| {
        let mut command = Command::new("git");
        environment.seal(command.args(words).current_dir(environment.project()));
        assert!(command.output().unwrap().status.success(), "{words:?}");
    };
    let remote = |name: &str| format!("https://forge.example/{name}/project");
    let settings = |name: &str, text: &str| {
        let slug = sandbox_model::RepoSlug::new("project", remote(name).as_bytes());
        environment.write(&format!("home/config/agents-sandbox/{slug}/config.yaml"), text);
    };
    let exec = |words: &[&str]| environment.run(&[&["exec"][..], words, &["true"]].concat());
    let memory = || spec(&environment)["resources"]["memory"].clone();
    settings("mine", "memory: 1G\n");
    settings("corp", "memory: 3G\nyes: true\n");
    git(&["init", "-q"]);
    git(&["remote", "add", "origin", &remote("mine")]);
    // A folder that the user brings has what belongs to it.
    exec(&[]).success();
    let before = memory();
    end(&environment);

    git(&["remote", "set-url", "origin", &remote("corp")]);
    assert_refused(
        &environment,
        &exec(&[]),
        ".git/config  remote: $ROOT/home/config/agents-sandbox/project-",
    );
    // A remote without settings brings nothing.
    git(&["remote", "set-url", "origin", &remote("other")]);
    exec(&[]).success();
    end(&environment);
    git(&["remote", "set-url", "origin", &remote("corp")]);
    exec(&["--yes"]).success();
    assert_ne!(memory(), before);
    exec(&[]).success();
    end(&environment);
}

/// In a home folder the guest could change this program's settings, approvals and the programs it runs.
#[test]
fn a_folder_with_our_own_folders_in_it_is_no_checkout_without_a_yes() {
    let environment = TestEnvironment::new();
    let exec = |words: &[&str]| {
        let mut command = environment.command(words);
        environment.finish(command.current_dir(environment.path("home")))
    };
    let refused = exec(&["exec", "true"]);
    assert_refused(&environment, &refused, "which contains this program's own settings");
    assert!(refused.stderr.starts_with("error: $ROOT/home is your home folder: "), "{refused}");
    assert!(refused.stderr.contains("hint: `cd` to the folder of one project"), "{refused}");
    assert!(!refused.stderr.contains("project's own files"), "{refused}");
    exec(&["exec", "--yes", "true"]).success();
    // Nothing that was approved lasts where the guest could approve it.
    assert_eq!(exec(&["exec", "true"]).code, Some(1));
    exec(&["kill", "--force"]).success();
}

/// The guest can write the project's file, and must not keep its user from ending or looking at a sandbox.
#[test]
fn a_broken_project_file_does_not_keep_a_sandbox_from_being_ended() {
    let environment = TestEnvironment::new();
    environment.run(&["exec", "true"]).success();
    environment.write(CONFIG, "memory: [");
    assert_eq!(environment.run(&["exec", "true"]).code, Some(1));
    // Which agent is meant stands in that file, perhaps: what was guessed is not removed.
    let refused = environment.run(&["kill", "-f"]);
    assert!(refused.code == Some(1) && refused.stderr.contains("`--agent` names the sandbox"), "{refused}");
    assert_ne!(sandboxes(&environment), "");
    for words in
        [&["logs"][..], &["sandbox", "inspect"], &["stop"], &["kill"], &["kill", "-f", "--agent", "opencode"]]
    {
        let ran = environment.run(words);
        assert!(ran.code == Some(0) && ran.stderr.contains("the project's settings are left out"), "{ran}");
    }
    assert_eq!(sandboxes(&environment), "");
}

/// A slip in the user's own file, the same.
#[test]
fn a_broken_file_of_ones_own_does_not_keep_a_sandbox_from_being_ended() {
    let environment = TestEnvironment::new();
    environment.run(&["exec", "true"]).success();
    let own = "home/config/agents-sandbox/config.yaml";
    environment.write(own, "memroy: 4G\n");
    assert_eq!(environment.run(&["exec", "true"]).code, Some(1), "what starts one does not guess");
    for words in [
        &["list"][..],
        &["df"],
        &["storage", "list"],
        &["logs"],
        &["network", "log"],
        &["session", "list"],
        &["sandbox", "inspect"],
        &["stop"],
        &["kill"],
        &["kill", "-f", "--agent", "opencode"],
    ] {
        let ran = environment.run(words);
        assert_eq!(ran.code, Some(0), "{words:?}: {ran}");
        let warnings = ran.stderr.matches("all files of settings are left out").count();
        assert_eq!(warnings, usize::from(words != ["list"]), "{words:?}: {ran}");
    }
    assert_eq!(sandboxes(&environment), "");
    // Which agent was meant stood in the file, perhaps.
    let guessed = environment.run(&["stop"]);
    assert!(guessed.stderr.contains("so the sandbox of opencode is meant"), "{guessed}");
    let typed = environment.run(&["stop", "--agent", "opencode"]);
    assert!(!typed.stderr.contains("is meant"), "{typed}");
    // A removal that nobody asked for would follow from a default.
    assert_eq!(environment.run(&["prune", "--yes"]).code, Some(1));
}

/// Which agent is meant stands in the file that cannot be read: the sandbox of another one does not go in its place.
#[test]
fn a_guess_is_not_enough_to_remove_a_sandbox() {
    let environment = TestEnvironment::new();
    environment.run(&["exec", "true"]).success();
    environment.run(&["stop"]).success();
    let there = sandboxes(&environment);
    environment.write("home/config/agents-sandbox/config.yaml", "agent: pi\nmemroy: 4G\n");
    for words in [
        &["sandbox", "remove"][..],
        &["sandbox", "remove", "--dry-run"],
        &["stop", "-f"],
        &["kill", "-f"],
        &["kill", "-f", "--dry-run"],
    ] {
        let ran = environment.run(words);
        assert_eq!(ran.code, Some(1), "{words:?}: {ran}");
        assert!(ran.stderr.starts_with("error: $ROOT/home/config/agents-sandbox/config.yaml:2:1: "), "{ran}");
        assert!(ran.stderr.contains("hint: `--agent` names the sandbox"), "{words:?}: {ran}");
        assert_eq!(sandboxes(&environment), there, "{words:?}");
    }
    // Who says it means it, be it by a variable.
    let mut dry_run = environment.command(&["sandbox", "remove", "--dry-run"]);
    environment.finish(dry_run.env("AGENTS_SANDBOX_AGENT", "opencode")).success();
    environment.run(&["sandbox", "remove", "--agent", "opencode"]).success();
    assert_eq!(sandboxes(&environment), "");
}

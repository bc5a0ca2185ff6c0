//! The steps of a run, and what it says beforehand.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use insta::assert_snapshot;
use serde_json::json;

use crate::environment::{Ran, TestEnvironment, without_hash};

/// An agent without a server, which prints one word.
pub fn with_agent(environment: &TestEnvironment) {
    let home = environment.run(&["exec", "--agent", "pi", "--", "sh", "-c", "echo $HOME"]);
    let home = String::from_utf8(home.raw_stdout).unwrap();
    let bin = environment.write("bin/pi", "#!/bin/sh\necho worked\n");
    std::fs::set_permissions(&bin, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("PATH={}:$PATH\n", bin.parent().unwrap().display());
    std::fs::write(Path::new(home.trim()).join(".bash_profile"), path).unwrap();
}

fn steps(ran: &Ran) -> Vec<String> {
    let lines = ran.stderr.lines().filter_map(|line| line.split_once("step "));
    lines.map(|(_, step)| step.split_once(':').unwrap_or_else(|| panic!("{step}")).0.to_string()).collect()
}

const ALL: [&str; 10] = [
    "1/10 auto-prune",
    "2/10 pre-flight checks",
    "3/10 image",
    "4/10 home volume",
    "5/10 sandbox",
    "6/10 provisioning",
    "7/10 daemon",
    "8/10 branch",
    "9/10 agent",
    "10/10 cleanup",
];

#[test]
fn a_run_takes_ten_steps_in_their_order_and_says_how_long_each_took() {
    let environment = TestEnvironment::new();
    with_agent(&environment);
    // Attaching to what runs, then from rest.
    for _ in 0..2 {
        let ran = environment.run(&["run", "--agent", "pi", "-l", "verbose"]);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "worked\n"), "{ran}");
        assert_eq!(steps(&ran), ALL, "{ran}");
        let timed = |line: &&str| line.contains("step ");
        assert!(ran.stderr.lines().filter(timed).all(|line| line.ends_with(" s)")), "{ran}");
        environment.run(&["stop", "--agent", "pi"]).success();
    }
    let quiet = environment.run(&["run", "--agent", "pi"]);
    assert!(!quiet.stderr.contains("step "), "{quiet}");
}

#[test]
fn the_checks_before_a_boot_say_all_that_is_missing() {
    let environment = TestEnvironment::new();
    let mut command = environment.command(&["shell"]);
    command.env("AGENTS_SANDBOX_FAKE_MISSING", "QEMU,image engine");
    assert_snapshot!(environment.finish(&mut command), @"
    error: sandboxes cannot work here yet: QEMU, image engine
    hint: QEMU: install QEMU
    hint: image engine: install image engine
    [exit 1]
    ");
    assert_eq!(environment.run(&["list", "--names"]).success(), "");
    // What runs needs no checks.
    environment.run(&["exec", "true"]).success();
    let mut command = environment.command(&["shell"]);
    command.env("AGENTS_SANDBOX_FAKE_MISSING", "QEMU");
    assert_eq!(environment.finish(&mut command).code, Some(0));
}

#[test]
fn a_dry_run_says_what_would_change() {
    let environment = TestEnvironment::new();
    environment.rested(0);
    let ran = environment.run(&["run", "-n", "--cpus", "2", "--memory", "1G", "--tmp-size", "1G"]);
    let text = without_hash(&ran.to_string());
    assert!(text.contains("status stopped, would be changed and started"), "{text}");
    assert!(text.contains("changed tmp-size: 2G → 1G") && text.contains("changed memory: 4G → 1G"), "{text}");
    assert!(text.contains("home project-HASH-opencode-TIME"), "{text}");
    let ran = environment.run(&["run", "-n", "--disk-size", "9G"]);
    assert!(ran.stdout.contains("stopped, would be made anew"), "{ran}");
    let ran = environment.run(&["run", "-n", "--rebuild"]);
    assert!(ran.stdout.contains("image      would be built"), "{ran}");
}

#[test]
fn a_dry_run_of_the_machine_alone_makes_image_and_home() {
    let environment = TestEnvironment::new();
    let ran = environment.run(&["run", "--dry-run-vm"]);
    let text = without_hash(&ran.stdout);
    assert!(text.contains("image sha256:") && text.contains("home project-HASH-opencode-TIME"), "{text}");
    assert!(text.contains("status would be made"), "{text}");
    assert_eq!(environment.volumes().len(), 1);
    assert_eq!(environment.run(&["list", "--names"]).success(), "");
    assert_eq!(environment.json(&["image", "list", "--format", "json"]).as_array().unwrap().len(), 1);
    // The run uses both.
    environment.run(&["exec", "true"]).success();
    assert_eq!(environment.volumes().len(), 1);
}

#[test]
fn values_that_no_machine_can_have_are_refused_by_name() {
    let environment = TestEnvironment::new();
    for (words, said) in [
        (["-m", "1M"], "error: memory: 1M is too little for a virtual machine"),
        (["-m", "9999G"], "error: memory: 9999G is more than the"),
        (["-c", "255"], "error: cpus: 255 is more than the"),
        (["--disk-size", "1M"], "error: disk-size: 1M is too little for a disk"),
    ] {
        let ran = environment.run(&[&["run"][..], &words].concat());
        assert_eq!(ran.code, Some(2), "{ran}");
        assert!(ran.stderr.starts_with(said), "{ran}");
        assert!(ran.stderr.contains("hint: write "), "{ran}");
    }
    environment.write("home/config/agents-sandbox/config.yaml", "memory: 1M\n");
    let ran = environment.run(&["run"]);
    assert_eq!(ran.code, Some(1), "{ran}");
    assert!(ran.stderr.contains("config.yaml"), "{ran}");
}

#[test]
fn a_checkout_that_is_gone_is_said() {
    let environment = TestEnvironment::new();
    let name = environment.rested(0);
    std::fs::rename(environment.project(), environment.path("moved")).unwrap();
    std::fs::create_dir(environment.path("elsewhere")).unwrap();
    let list = |words: &[&str]| {
        let mut command = environment.command(words);
        environment.finish(command.current_dir(environment.path("elsewhere")))
    };
    let ran = list(&["list"]);
    assert_eq!(ran.code, Some(0), "{ran}");
    assert!(ran.stderr.contains(&format!("{name}: its checkout $ROOT/project is gone")), "{ran}");
    let json: serde_json::Value = serde_json::from_str(&list(&["list", "--format", "json"]).stdout).unwrap();
    assert_eq!(json[0]["checkout_gone"], true);
    std::fs::rename(environment.path("moved"), environment.project()).unwrap();
    assert_eq!(environment.json(&["list", "--format", "json"])[0]["checkout_gone"], false);
}

#[test]
fn the_short_form_of_a_label_finds_every_clone() {
    let environment = TestEnvironment::new();
    environment.run(&["exec", "true"]).success();
    let json = environment.json(&["list", "--format", "json"]);
    let project = json[0]["labels"]["org.agents-sandbox.project"].as_str().unwrap().to_string();
    let count =
        |label: &str| environment.run(&["list", "--names", "--label", label]).success().lines().count();
    assert_eq!(count(&format!("project={project}")), 1);
    assert_eq!(count(&format!("org.agents-sandbox.project={project}")), 1);
    assert_eq!(count("project=another"), 0);
}

/// The project becomes a worktree of a repository that is made in `repository`.
fn become_worktree(environment: &TestEnvironment, repository: &Path) {
    let git = |words: &[&str]| {
        let mut command = std::process::Command::new("git");
        command.args(["-c", "user.name=a", "-c", "user.email=a@b", "-C"]).arg(repository);
        environment.seal(&mut command);
        assert!(command.args(words).output().unwrap().status.success(), "{words:?}");
    };
    git(&["init", "--quiet"]);
    git(&["commit", "--quiet", "--allow-empty", "-m", "one"]);
    std::fs::remove_dir(environment.project()).unwrap();
    git(&["worktree", "add", "--quiet", environment.project().to_str().unwrap()]);
}

#[test]
fn a_worktree_whose_repository_is_elsewhere_gets_it_and_its_user_can_make_it_read_only() {
    let environment = TestEnvironment::new();
    // Below /tmp there is nothing of the host in a guest.
    let elsewhere = tempfile::tempdir_in("/var/tmp").unwrap();
    become_worktree(&environment, elsewhere.path());
    let repository = elsewhere.path().canonicalize().unwrap().join(".git").display().to_string();
    let mounts = || environment.json(&["sandbox", "inspect"])["spec"]["mounts"].clone();
    let ran = environment.run(&["shell"]);
    let line = format!("the repository of this checkout, {repository}, is in the sandbox too, for git");
    assert!(ran.code == Some(0) && ran.stderr.contains(&line), "{ran}");
    let mount = |readonly| json!([{ "target": repository, "source": repository, "readonly": readonly }]);
    assert_eq!(mounts(), mount(false));

    let setting = format!("mounts:\n  {repository}: {{ source: {repository}, readonly: true }}\n");
    environment.write("home/config/agents-sandbox/config.yaml", &setting);
    environment.run(&["stop", "--cold"]).success();
    environment.run(&["shell"]).success();
    assert_eq!(mounts(), mount(true));

    // A part of it is written through the whole, which git needs.
    std::fs::create_dir_all(format!("{repository}/hooks")).unwrap();
    let part = format!("mounts:\n  {repository}/hooks: {{ source: {repository}/hooks, readonly: true }}\n");
    environment.write("home/config/agents-sandbox/config.yaml", &part);
    environment.run(&["stop", "--cold"]).success();
    let ran = environment.run(&["exec", "true"]);
    let text = format!(
        "{repository}/hooks is read-only at {repository}/hooks, and in {repository}, which is in the sandbox too, \
         where the sandbox can write it"
    );
    assert!(ran.code == Some(0) && ran.stderr.contains(&text), "{ran}");
    let again = environment.run(&["exec", "true"]);
    assert!(!again.stderr.contains("is read-only at"), "it has it already: {again}");

    // A pointer alone proves nothing: the repository says no more that this is its worktree.
    std::fs::remove_file(environment.path("home/config/agents-sandbox/config.yaml")).unwrap();
    std::fs::write(format!("{repository}/worktrees/project/gitdir"), "/elsewhere/.git\n").unwrap();
    environment.run(&["stop", "--cold"]).success();
    environment.run(&["shell"]).success();
    assert_eq!(mounts(), json!([]));

    // Once it is without, another is news: whoever works in the sandbox may have brought it about.
    let pointer = format!("{}/.git\n", environment.project().display());
    std::fs::write(format!("{repository}/worktrees/project/gitdir"), pointer).unwrap();
    environment.run(&["stop", "--cold"]).success();
    let ran = environment.run(&["shell"]);
    let text = format!(".git  repository: {repository}, for the sandbox to write");
    assert!(ran.code == Some(1) && ran.stderr.contains(&text), "{ran}");
    environment.run(&["shell", "--yes"]).success();
    assert_eq!(mounts(), mount(false));
    environment.run(&["shell"]).success();
}

#[test]
fn a_worktree_whose_repository_cannot_be_mounted_says_what_git_needs() {
    let environment = TestEnvironment::new();
    std::fs::create_dir(environment.path("repository")).unwrap();
    // Below /tmp, which is the guest's own.
    become_worktree(&environment, &environment.path("repository"));
    let ran = environment.run(&["shell"]);
    let warning =
        "git does not work in this sandbox: the repository of this checkout is $ROOT/repository/.git,";
    assert!(ran.code == Some(0) && ran.stderr.contains(warning), "{ran}");
}

//! What a person sees of a microsandbox that hangs: a script in its place, which hangs where a file says so.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::environment::{Ran, TestEnvironment, without_hash};

const SCRIPT: &str = include_str!("../../../sandbox-runtime-microsandbox/tests/stand_in/msb.sh");
const IMAGE: &str = include_str!("../../../sandbox-runtime-microsandbox/tests/fixtures/image-inspect.json");

/// What each call may take, in milliseconds. A stand-in that does not hang is done in a tenth of it.
const LIMIT: u64 = 3_000;

/// A project that has an image and a home, on the stand-in from now on.
pub struct World {
    pub environment: TestEnvironment,
    digest: String,
}

impl World {
    pub fn new() -> Self {
        let environment = TestEnvironment::new();
        environment.rested(0);
        let inspected = environment.json(&["sandbox", "inspect"]);
        let digest = inspected["spec"]["image_digest"].as_str().unwrap().to_string();
        let script = environment.write("bin/stand-in", SCRIPT);
        fs::set_permissions(script, fs::Permissions::from_mode(0o755)).unwrap();
        let image = environment.write("home/data/agents-sandbox/msb/image.json", IMAGE);
        fs::set_permissions(image.parent().unwrap(), fs::Permissions::from_mode(0o700)).unwrap();
        environment.write("archive.tar", "an archive");
        let world = Self { environment, digest };
        fs::write(world.msb("machines"), "").unwrap();
        world
    }

    pub fn msb(&self, file: &str) -> PathBuf {
        self.environment.path("home/data/agents-sandbox/msb").join(file)
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = self.environment.command(words);
        let path = |name: &str| self.environment.path(name).display().to_string();
        command
            .env_remove("AGENTS_SANDBOX_FAKE_RUNTIME")
            .env("AGENTS_SANDBOX_RUNTIME", "microsandbox")
            .env("AGENTS_SANDBOX_STAND_IN_MSB", format!("{LIMIT} {}", path("bin/stand-in")))
            .env("AGENTS_SANDBOX_IMAGE_ARCHIVE", format!("{} {}", self.digest, path("archive.tar")));
        command
    }

    pub fn run(&self, words: &[&str]) -> Ran {
        self.environment.finish(&mut self.command(words))
    }

    /// From now on calls of these verbs hang, and no others.
    fn hang(&self, verbs: &[&str]) {
        for verb in ["create", "start", "stop", "exec", "list", "load"] {
            let file = self.msb(&format!("hang-{verb}"));
            if verbs.contains(&verb) {
                fs::write(file, "").unwrap();
            } else {
                let _ = fs::remove_file(file);
            }
        }
    }

    /// Fails where anything that hung, or was started by it, lives on; there must have been something.
    fn nothing_is_left(&self) {
        let path = self.msb("alive");
        assert_ne!(fs::read_to_string(&path).unwrap(), "");
        let (file, begin) = (fs::File::open(&path).unwrap(), Instant::now());
        while file.try_lock().is_err() {
            assert!(begin.elapsed() < Duration::from_secs(20), "something of a call lives on");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.hang(&[]);
        let _ = self.command(&["kill"]).output();
        // The stand-in's machines end with their file.
        let _ = fs::remove_file(self.msb("lives"));
    }
}

/// One that hangs is an error that names it, with what to do, and the code of any failure.
#[track_caller]
fn says(ran: &Ran, error: &str) {
    assert_eq!(ran.code, Some(1), "{ran}");
    let text = without_hash(&ran.stderr);
    assert!(text.contains(error) && text.contains("hint: "), "{ran}");
}

#[test]
fn a_call_that_hangs_is_named_and_the_next_command_works() {
    let world = World::new();
    for (verb, error) in [
        ("load", "error: `msb load` did not answer within 3 seconds and was ended"),
        (
            "create",
            "error: sandbox `project-HASH-opencode` did not boot: `msb create` did not answer within 3 seconds and was ended",
        ),
    ] {
        world.hang(&[verb]);
        says(&world.run(&["exec", "true"]), error);
        world.nothing_is_left();
    }
    let crashed = world.environment.finish(&mut world.command(&["list", "--format", "json"]));
    assert!(crashed.success().contains("\"crashed\""), "and it says so");

    // It boots, and then the way into it hangs.
    world.hang(&["exec"]);
    says(&world.run(&["exec", "true"]), "error: `msb exec` did not answer within 3 seconds and was ended");
    world.nothing_is_left();
    let listed = world.run(&["list", "--format", "json"]).success();
    assert!(listed.contains("\"running\""), "{listed}");

    // Neither does it stop, as far as msb goes.
    world.hang(&["stop", "list"]);
    let ran = world.run(&["kill"]);
    assert_eq!(
        (ran.code, without_hash(&ran.stderr).as_str()),
        (Some(0), "project-HASH-opencode is powered off")
    );
    world.nothing_is_left();
    let ran = world.run(&["stop"]);
    assert_eq!(ran.code, Some(0), "{ran}");

    // While a boot or a stop hangs, its machine is noted nowhere.
    world.hang(&["exec"]);
    assert_eq!(world.run(&["exec", "true"]).code, Some(1));
    let name = world.environment.sandbox();
    fs::remove_file(world.msb("records/sandboxes").join(name).join("machine.pid")).unwrap();
    world.hang(&["stop", "list"]);
    let ran = world.run(&["kill"]);
    let told = without_hash(&ran.stderr);
    assert_eq!((ran.code, told.as_str()), (Some(0), "project-HASH-opencode is powered off"));
    world.nothing_is_left();

    world.hang(&["start"]);
    let error = "did not boot: `msb start` did not answer within 3 seconds and was ended";
    says(&world.run(&["exec", "true"]), error);
    world.nothing_is_left();
}

#[test]
fn lists_go_on_with_a_note_and_what_needs_an_answer_says_so() {
    let world = World::new();
    // Its machines cannot be seen: only the stand-in itself can tell. One that reaches something has to be seen.
    fs::write(world.msb("machines"), "unseen").unwrap();
    let ran = world.run(&["exec", "true"]);
    assert!(ran.stderr.contains("its machine cannot be seen, or ended as soon as it was there"), "{ran}");
    world.environment.write("home/config/agents-sandbox/config.yaml", "network: {provider: []}\n");
    world.hang(&["exec"]);
    assert_eq!(world.run(&["exec", "true"]).code, Some(1));
    world.hang(&["list"]);
    let asked = "`msb list` did not answer within 3 seconds and was ended";
    let ran = world.run(&["list"]);
    assert_eq!(ran.code, Some(0), "{ran}");
    assert!(ran.stdout.contains(" unknown "), "{ran}");
    let note = format!("warning: the status of project-HASH-opencode is unknown: {asked}");
    assert!(without_hash(&ran.stderr).contains(&note), "{ran}");

    let ran = world.run(&["df"]);
    assert_eq!(ran.code, Some(0), "{ran}");
    let note = "warning: the status of project-HASH-opencode is unknown, so nothing of it is reclaimable";
    assert!(ran.stdout.contains("private disks") && without_hash(&ran.stderr).contains(note), "{ran}");

    // What else this computer lacks is another matter.
    let ran = world.run(&["doctor", "--format", "json"]);
    let findings: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let row = findings.as_array().unwrap().iter().find(|row| row["check"] == "microsandbox").unwrap();
    assert_eq!((&row["grade"], row["detail"].as_str()), (&"note".into(), Some(asked)), "{findings:#}");

    for words in [&["exec", "true"][..], &["stop"], &["sandbox", "inspect"]] {
        let ran = world.run(words);
        says(&ran, &format!("error: {asked}"));
        assert!(ran.stderr.contains("`agents-sandbox kill`"), "{words:?}: {ran}");
    }
    // A kill needs no such answer, but that of the power-off.
    world.hang(&["list", "stop"]);
    let ran = world.run(&["kill"]);
    says(&ran, "error: `msb stop` did not answer within 3 seconds and was ended");
    // What has just failed is no way out.
    assert!(!ran.stderr.contains("`agents-sandbox kill`"), "{ran}");
    world.hang(&[]);
    world.nothing_is_left();
    let ran = world.run(&["list"]);
    assert!(ran.code == Some(0) && !ran.stderr.contains("unknown"), "{ran}");
    let findings = world.run(&["doctor", "--format", "json"]).stdout;
    assert!(findings.contains("it has 1 of the sandboxes"), "{findings}");
}

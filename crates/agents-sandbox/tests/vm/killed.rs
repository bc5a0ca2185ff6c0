//! The program killed at steps that touch the machine: the next one works, and nothing is lost.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use crate::{image, place};

type Outcome<T = ()> = Result<T, String>;

/// A name and what it runs.
type Case = (&'static str, fn() -> Outcome);

pub const CASES: [Case; 2] = [
    ("a_first_run_killed_at_any_step_is_made_good", first_runs),
    ("a_launcher_killed_at_any_step_loses_nothing", one_life),
];

const KILL: i32 = 9;
/// What is saved with a machine's memory, and lost with a shutdown.
const IN_MEMORY: &str = "/tmp/kept";

fn told(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// A project of its own, over the store that all tests share.
struct House {
    image: String,
    scratch: tempfile::TempDir,
    /// What was written in the sandbox, one line each.
    lines: Vec<String>,
    disk: &'static str,
}

impl House {
    fn new() -> Outcome<Self> {
        let (archive, digest) = image::archive()?;
        fs::create_dir_all(place::place()).map_err(told)?;
        let scratch = tempfile::Builder::new().prefix("killed-").tempdir_in(place::place()).map_err(told)?;
        let house = Self {
            image: format!("sha256:{} {}", digest.hex(), archive.display()),
            scratch,
            lines: Vec::new(),
            disk: "1G",
        };
        let settings = house.project().join(".agents-sandbox");
        fs::create_dir_all(settings.join("pi")).map_err(told)?;
        // Else the checkout would be whatever the tests themselves are in.
        let made = Command::new("git").args(["init", "--quiet"]).current_dir(house.project()).status();
        if !made.map_err(told)?.success() {
            return Err("`git init` failed".into());
        }
        // An agent that is there without being installed.
        let agent = house.scratch.path().join("pi");
        fs::write(&agent, "#!/bin/sh\necho \"at work: $*\"\n").map_err(told)?;
        fs::set_permissions(&agent, std::os::unix::fs::PermissionsExt::from_mode(0o755)).map_err(told)?;
        let config = format!("mounts:\n  /usr/local/bin/pi: {}\n", agent.display());
        fs::write(settings.join("config.yaml"), config).map_err(told)?;
        Ok(house)
    }

    /// How the names of everything of this case begin: cases run side by side.
    fn own(&self) -> String {
        let name = self.scratch.path().file_name().unwrap_or_default();
        name.to_string_lossy().to_ascii_lowercase()
    }

    fn project(&self) -> PathBuf {
        self.scratch.path().join(self.own())
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(place::program());
        command.args(words).current_dir(self.project()).stdin(Stdio::null());
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", place::place().join("home")).env("LANG", "C.UTF-8");
        let settings = [
            ("RUNTIME", "qemu"),
            ("IMAGE_ARCHIVE", &self.image),
            ("AGENT", "pi"),
            ("CPUS", "1"),
            ("MEMORY", "512M"),
            ("DISK_SIZE", self.disk),
            ("TMP_SIZE", "64M"),
            ("AUTO_STOP_TIMEOUT", "10m"),
            ("UPGRADE_AGENTS", "off"),
            ("YES", "true"),
        ];
        for (name, value) in settings {
            command.env(format!("AGENTS_SANDBOX_{name}"), value);
        }
        command
    }

    fn succeeds(&self, words: &[&str]) -> Outcome<String> {
        text(words, self.command(words).output().map_err(told)?)
    }

    /// Runs the program, which dies at the place that is named.
    fn dies(&self, words: &[&str], place: &str) -> Outcome {
        let begun = std::time::Instant::now();
        let output = self.command(words).env("AGENTS_SANDBOX_KILL_AT", place).output().map_err(told)?;
        eprintln!("{:>6.1} s  {words:?} killed at `{place}`", begun.elapsed().as_secs_f64());
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.signal() == Some(KILL) && said.contains(&format!("killed: {place}\n")) {
            return Ok(());
        }
        Err(format!("{words:?} does not come to `{place}`: {}: {said}", output.status))
    }

    /// The next command works and finds everything that was written before; `memory` too, where it sleeps.
    fn works(&mut self, after: &str, memory: bool) -> Outcome {
        let begun = std::time::Instant::now();
        self.lines.push(after.into());
        let script = format!(
            "for file in ~/kept /workspace/kept {IN_MEMORY}; do echo '{after}' >>$file; done; \
             sync; cat ~/kept; cmp ~/kept /workspace/kept && wc -l <{IN_MEMORY}"
        );
        let said = self.succeeds(&["exec", "--", "sh", "-c", &script])?;
        eprintln!("{:>6.1} s  the next command", begun.elapsed().as_secs_f64());
        let mut found: Vec<&str> = said.lines().collect();
        let in_memory = found.pop().unwrap_or_default();
        if found != self.lines {
            return Err(format!("after `{after}`: {:?} was written, and this is there: {said}", self.lines));
        }
        if memory && in_memory == "1" {
            return Err(format!("after `{after}`: the memory of the sandbox is lost"));
        }
        self.is_whole(after)
    }

    /// One sandbox, one home, and nothing half-made.
    fn is_whole(&self, after: &str) -> Outcome {
        let place = place::layout()?;
        for folder in [place.qemu().sandboxes(), place.volumes()] {
            let mut names = Vec::new();
            for entry in fs::read_dir(&folder).map_err(told)? {
                let name = entry.map_err(told)?.file_name().to_string_lossy().into_owned();
                if name.contains(&self.own()) {
                    names.push(name);
                }
            }
            if names.len() != 1 || names[0].starts_with('.') {
                return Err(format!("after `{after}` there are {names:?} in {}", folder.display()));
            }
        }
        Ok(())
    }

    /// As before the first run. Also where a case has failed, so nothing is made of what does not work.
    fn clear(&mut self) {
        let _ = self.command(&["stop", "--cold", "--force"]).output();
        self.remove_volumes();
        let _ = fs::remove_file(self.project().join("kept"));
        self.lines.clear();
    }

    fn remove_volumes(&self) {
        let listed = self.command(&["volume", "list", "--format", "json"]).output();
        let listed = listed.map(|output| output.stdout).unwrap_or_default();
        let volumes: Vec<serde_json::Value> = serde_json::from_slice(&listed).unwrap_or_default();
        for name in volumes.iter().filter_map(|volume| volume["name"].as_str()) {
            if name.starts_with(&self.own()) {
                let _ = self.command(&["volume", "remove", name]).output();
            }
        }
    }
}

impl Drop for House {
    fn drop(&mut self) {
        self.clear();
    }
}

fn text(words: &[&str], output: Output) -> Outcome<String> {
    if !output.status.success() {
        return Err(format!("{words:?}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr)));
    }
    String::from_utf8(output.stdout).map_err(told)
}

/// Each time everything is new.
fn first_runs() -> Outcome {
    let mut house = House::new()?;
    for place in [
        "auto-prune",
        "image",
        "a home volume is begun",
        "a home volume is filled",
        "a record is in its place",
        "a machine has a disk and no name",
        "the sandbox is not started yet",
        "the machine boots",
        "the sandbox is started",
        "the keeper has a client",
        "provisioning",
    ] {
        house.dies(&["run"], place)?;
        house.works(place, false)?;
        house.clear();
    }
    Ok(())
}

fn one_life() -> Outcome {
    let mut house = House::new()?;
    // A first run, from one step to the next.
    for place in
        ["a home volume is filled", "a machine has a disk and no name", "the sandbox is not started yet"]
    {
        house.dies(&["run"], place)?;
    }
    house.dies(&["run"], "the machine boots")?;
    house.works("the first boot", false)?;

    // The machine runs.
    fs::write(house.project().join(".agents-sandbox/pi/settings.json"), "{\"theme\":\"dark\"}")
        .map_err(told)?;
    for place in ["provisioning", "agent", "cleanup"] {
        house.dies(&["run", "--", "hello"], place)?;
        house.works(place, true)?;
    }
    let ran = house.succeeds(&["run", "--", "hello"])?;
    let provisioned = house.succeeds(&["exec", "--", "sh", "-c", "cat ~/.pi/agent/settings.json"])?;
    if ran != "at work: hello\n" || !provisioned.contains("dark") {
        return Err(format!("the agent: {ran:?}, its settings: {provisioned:?}"));
    }

    // It falls asleep and wakes.
    house.dies(&["stop"], "the machine is told to end")?;
    house.works("falling asleep", true)?;
    house.succeeds(&["stop"])?;
    house.dies(&["run"], "the machine boots")?;
    house.works("waking", true)?;
    house.succeeds(&["stop"])?;
    // Nobody watches it then.
    house.dies(&["run"], "the sandbox is started")?;
    house.works("awake", true)?;

    // It shuts down, and is made anew.
    house.dies(&["stop", "--cold"], "the machine is told to end")?;
    house.works("shutting down", false)?;
    house.dies(&["stop", "--cold"], "the machine is told to end")?;
    house.disk = "2G";
    for place in ["the sandbox is at rest", "a machine is put aside", "a machine has a disk and no name"] {
        house.dies(&["run"], place)?;
    }
    house.works("made anew", false)?;
    let disk = house.succeeds(&["exec", "--root", "--", "sh", "-c", "cat /sys/block/*/size"])?;
    if !disk.lines().any(|sectors| sectors == "4194304") {
        return Err(format!("no disk has 2G: {disk}"));
    }

    // It is powered off, removed, and gets another home.
    house.dies(&["kill"], "the machine is told to end")?;
    house.works("power off", false)?;
    house.succeeds(&["stop", "--cold"])?;
    for place in ["a home volume is begun", "a home volume is filled"] {
        house.dies(&["volume", "migrate", "--rm"], place)?;
    }
    house.succeeds(&["volume", "migrate", "--rm"])?;
    let names = house.succeeds(&["list", "--names"])?;
    let name = names.lines().find(|name| name.starts_with(&house.own())).unwrap_or_default();
    house.dies(&["sandbox", "remove", name], "a machine is put aside")?;
    house.works("removal", false)
}

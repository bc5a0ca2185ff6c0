//! The real program in a project of its own, over the store that all tests share.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use crate::{image, place};

pub type Outcome<T = ()> = Result<T, String>;

/// A name and what it runs.
pub type Case = (&'static str, fn() -> Outcome);

const KILL: i32 = 9;
/// What is saved with a machine's memory, and lost with a shutdown.
const IN_MEMORY: &str = "/tmp/kept";
/// Beside the image, on the disk that goes with the sandbox.
const ON_ROOT: &str = "/var/tmp/kept";

pub fn told(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// A project of its own, over the store that all tests share.
pub struct House {
    image: String,
    scratch: tempfile::TempDir,
    /// What was written in the sandbox, one line each.
    lines: Vec<String>,
    /// Its root disk is never made anew, so that every line is on that as well.
    pub keeps_root: bool,
    pub disk: &'static str,
}

impl House {
    pub fn new() -> Outcome<Self> {
        let (archive, digest) = image::archive()?;
        fs::create_dir_all(place::place()).map_err(told)?;
        let scratch = tempfile::Builder::new().prefix("killed-").tempdir_in(place::place()).map_err(told)?;
        let house = Self {
            image: format!("sha256:{} {}", digest.hex(), archive.display()),
            scratch,
            lines: Vec::new(),
            keeps_root: false,
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
    pub fn own(&self) -> String {
        let name = self.scratch.path().file_name().unwrap_or_default();
        name.to_string_lossy().to_ascii_lowercase()
    }

    pub fn project(&self) -> PathBuf {
        self.scratch.path().join(self.own())
    }

    pub fn command(&self, words: &[&str]) -> Command {
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

    pub fn succeeds(&self, words: &[&str]) -> Outcome<String> {
        text(words, self.command(words).output().map_err(told)?)
    }

    /// Runs the program, which dies at the place that is named.
    pub fn dies(&self, words: &[&str], place: &str) -> Outcome {
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
    pub fn works(&mut self, after: &str, memory: bool) -> Outcome {
        let begun = std::time::Instant::now();
        self.lines.push(after.into());
        let script = format!(
            "for file in ~/kept /workspace/kept {ON_ROOT} {IN_MEMORY}; do echo '{after}' >>$file; done; \
             sync; cat ~/kept; cmp ~/kept /workspace/kept && wc -l <{ON_ROOT} && wc -l <{IN_MEMORY}"
        );
        let said = self.succeeds(&["exec", "--", "sh", "-c", &script])?;
        eprintln!("{:>6.1} s  the next command", begun.elapsed().as_secs_f64());
        let mut found: Vec<&str> = said.lines().collect();
        let in_memory = found.pop().unwrap_or_default();
        let on_root = found.pop().unwrap_or_default();
        if found != self.lines {
            return Err(format!("after `{after}`: {:?} was written, and this is there: {said}", self.lines));
        }
        if memory && in_memory == "1" {
            return Err(format!("after `{after}`: the memory of the sandbox is lost"));
        }
        if self.keeps_root && on_root != self.lines.len().to_string() {
            return Err(format!(
                "after `{after}`: {on_root} of {} lines are on the root disk",
                self.lines.len()
            ));
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
    pub fn clear(&mut self) {
        let _ = self.command(&["stop", "--cold", "--force"]).output();
        self.remove_volumes();
        let _ = fs::remove_file(self.project().join("kept"));
        self.lines.clear();
    }

    /// What its machine processes wrote, and those who write memory to the disk.
    pub fn machine_log(&self) -> Outcome<String> {
        let log = self.sandbox_dir()?.join("machine.log");
        fs::read_to_string(&log).map_err(|error| format!("{}: {error}", log.display()))
    }

    /// Where the driver keeps its sandbox.
    pub fn sandbox_dir(&self) -> Outcome<PathBuf> {
        let sandboxes = place::layout()?.qemu().sandboxes();
        for entry in fs::read_dir(sandboxes).map_err(told)? {
            let path = entry.map_err(told)?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.starts_with(&self.own()) {
                return Ok(path);
            }
        }
        Err("it has no sandbox".into())
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

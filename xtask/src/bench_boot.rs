//! `cargo xtask bench boot`: how long a user waits, as medians, on the release build.
//!
//! The sandbox is a real one with the default runner image, so the first run builds that image. Layers and
//! images come from the user's own data folder; state and configuration are the benchmark's own, and the
//! sandbox with its home volume is removed at the end.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::interrupt::Interrupt;

pub type Outcome<T = ()> = Result<T, String>;

/// Aims on a quiet machine of two cores without hardware virtualization, in milliseconds.
const AIMS: [(&str, u128); 4] = [
    ("stopped -> exec true", 2_000),
    ("running -> exec true", 60),
    ("list, 1000 records", 50),
    ("--version", 10),
];
const MEMORY_AIM_KIB: u64 = 60 * 1024;

/// A project with a sandbox of its own. Dropping it removes both.
pub struct Bench {
    /// Whoever measures looks here between two steps.
    pub interrupt: Interrupt,
    program: PathBuf,
    project: PathBuf,
    scratch: PathBuf,
    data: PathBuf,
    memory: &'static str,
}

/// Runs everything `runs` times and prints a table.
pub fn run(runs: usize) -> Outcome {
    let bench = Bench::new("1G")?;
    bench.ended(bench.measure(runs))
}

pub fn text(error: &dyn std::fmt::Display) -> String {
    error.to_string()
}

impl Bench {
    /// Builds the release program, and makes the folder of a project whose sandbox has so much `memory`.
    pub fn new(memory: &'static str) -> Outcome<Self> {
        let interrupt = Interrupt::watch().map_err(|error| text(&error))?;
        println!("building the release program …");
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
        let mut compile = Command::new(&cargo);
        compile.args(["build", "--release", "--quiet", "--package", "agents-sandbox"]);
        // What cargo tells this chore about itself would have it build half of the crates anew each time.
        let own = ["CARGO_MANIFEST_", "CARGO_PKG_", "CARGO_CRATE_", "CARGO_BIN_", "CARGO_PRIMARY_"];
        for (name, _) in std::env::vars_os() {
            if own.iter().any(|own| name.to_string_lossy().starts_with(own)) {
                compile.env_remove(name);
            }
        }
        let built = compile.status().map_err(|error| text(&error))?;
        if !built.success() {
            return Err("the program did not build".into());
        }
        let own = std::env::current_exe().map_err(|error| text(&error))?;
        // This chore lies in <target>/<profile>/.
        let target = own.ancestors().nth(2).ok_or("no target folder")?;
        // Where a project may lie: the guest has a /tmp of its own, in which nothing lasts.
        let scratch = target.join(format!("bench-{}", std::process::id()));
        let project = scratch.join("bench-project");
        make_project(&project).inspect_err(|_| drop(fs::remove_dir_all(&scratch)))?;
        let home = std::env::var_os("HOME").map(PathBuf::from).ok_or("HOME is not set")?;
        let data = std::env::var_os("XDG_DATA_HOME").map_or_else(|| home.join(".local/share"), PathBuf::from);
        Ok(Self { interrupt, program: target.join("release/agents-sandbox"), project, scratch, data, memory })
    }

    /// What to report: a step that failed because of Ctrl-C tells nothing.
    pub fn ended(&self, outcome: Outcome) -> Outcome {
        self.interrupt.check().and(outcome)
    }

    /// Where the program keeps its sandboxes.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Where the program looks for the benchmark's own configuration.
    pub fn config(&self) -> PathBuf {
        self.scratch.join("config")
    }

    pub fn program(&self) -> &Path {
        &self.program
    }

    /// A folder of the benchmark's own, with `config` and `state` in it.
    pub fn scratch(&self) -> &Path {
        &self.scratch
    }

    pub fn project(&self) -> &Path {
        &self.project
    }

    /// The program with these arguments, in the project.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(arguments)
            .current_dir(&self.project)
            .env("XDG_CONFIG_HOME", self.config())
            .env("XDG_STATE_HOME", self.scratch.join("state"))
            .env("XDG_DATA_HOME", &self.data)
            // A pause between two measurements must not stop what the second one needs running.
            .env("AGENTS_SANDBOX_AUTO_STOP_TIMEOUT", "10m")
            .env("AGENTS_SANDBOX_MEMORY", self.memory)
            .stdin(Stdio::null());
        command
    }

    /// How long a command takes that has to succeed.
    pub fn timed(mut command: Command) -> Outcome<Duration> {
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let begin = Instant::now();
        let output = command.output().map_err(|error| text(&error))?;
        let took = begin.elapsed();
        if output.status.success() {
            return Ok(took);
        }
        Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)))
    }

    fn measure(&self, runs: usize) -> Outcome {
        println!("making the sandbox (the first time builds its image) …");
        if !self.command(&["exec", "--", "true"]).status().map_err(|error| text(&error))?.success() {
            return Err("the sandbox could not be made".into());
        }
        let mut cold = Vec::new();
        for _ in 0..runs {
            self.interrupt.check()?;
            Self::timed(self.command(&["stop", "--cold"]))?;
            cold.push(Self::timed(self.command(&["exec", "--", "true"]))?);
        }
        let mut warm = Vec::new();
        for _ in 0..runs {
            warm.push(Self::timed(self.command(&["exec", "--", "true"]))?);
        }
        let memory = self.memory()?;
        Self::timed(self.command(&["stop", "--cold"]))?;
        let records = self.records(1_000)?;
        let mut list = Vec::new();
        let mut version = Vec::new();
        for _ in 0..runs {
            let mut command = self.command(&["list"]);
            command.env("XDG_DATA_HOME", &records);
            list.push(Self::timed(command)?);
            version.push(Self::timed(self.command(&["--version"]))?);
        }
        println!(
            "{:<24} {:>9} {:>9} {:>9} {:>9}",
            format!("median of {runs}, ms"),
            "min",
            "median",
            "max",
            "aim"
        );
        for ((name, aim), mut times) in AIMS.into_iter().zip([cold, warm, list, version]) {
            times.sort();
            let at = |index: usize| times[index].as_secs_f64() * 1e3;
            println!("{name:<24} {:>9.1} {:>9.1} {:>9.1} {aim:>9}", at(0), at(runs / 2), at(runs - 1));
        }
        println!(
            "keeper and machine processes: {} MiB resident (aim {})",
            memory / 1024,
            MEMORY_AIM_KIB / 1024
        );
        Ok(())
    }

    /// Resident KiB of every background process of the benchmark's sandbox but QEMU itself.
    fn memory(&self) -> Outcome<u64> {
        let program = self.program.canonicalize().map_err(|error| text(&error))?;
        let mut total = 0;
        for entry in fs::read_dir("/proc").map_err(|error| text(&error))?.flatten() {
            // A process in a user namespace of its own hides its link; its command line still tells.
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let mut words = line.split(|byte| *byte == 0);
            let ours = words.next() == Some(program.as_os_str().as_encoded_bytes())
                && words.next() == Some(b"internal");
            if ours && let Ok(status) = fs::read_to_string(entry.path().join("status")) {
                let kib = status.lines().find_map(|line| {
                    line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()
                });
                total += kib.unwrap_or_default();
            }
        }
        if total == 0 { Err("no background process was found".into()) } else { Ok(total) }
    }

    /// A data folder with `count` copies of the benchmark's own record.
    fn records(&self, count: usize) -> Outcome<PathBuf> {
        let original = self.sandbox_dir()?;
        let name = original.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let record = fs::read_to_string(original.join("sandbox.json")).map_err(|error| text(&error))?;
        let data = self.scratch.join("records");
        for index in 0..count {
            let other = format!("record-{index:04}-opencode");
            let dir = data.join("agents-sandbox/qemu/sandboxes").join(&other);
            fs::create_dir_all(&dir).map_err(|error| text(&error))?;
            fs::write(dir.join("sandbox.json"), record.replace(&name, &other))
                .map_err(|error| text(&error))?;
            fs::copy(original.join("machine.lock"), dir.join("machine.lock"))
                .map_err(|error| text(&error))?;
        }
        Ok(data)
    }

    pub fn sandbox_dir(&self) -> Outcome<PathBuf> {
        let sandboxes = self.data.join("agents-sandbox/qemu/sandboxes");
        self.named(&sandboxes).pop().ok_or_else(|| format!("no sandbox in {}", sandboxes.display()))
    }

    /// Entries that belong to the benchmark's project: their names begin with its slug.
    fn named(&self, dir: &Path) -> Vec<PathBuf> {
        let slugs = self.slugs();
        let mut found = entries(dir);
        found.retain(|path| slugs.iter().any(|slug| name(path).starts_with(slug.as_str())));
        found
    }

    fn slugs(&self) -> Vec<String> {
        let slugs = entries(&self.scratch.join("state/agents-sandbox"));
        slugs.iter().map(|slug| name(slug)).filter(|slug| slug.starts_with("bench-project-")).collect()
    }

    /// The names of its sandboxes: of each agent, the project has a folder of records.
    fn sandboxes(&self) -> Vec<String> {
        let state = self.scratch.join("state/agents-sandbox");
        let agents = |slug: String| {
            let folders = entries(&state.join(&slug)).into_iter().filter(|path| path.is_dir());
            folders.map(|agent| format!("{slug}-{}", name(&agent))).collect::<Vec<_>>()
        };
        self.slugs().into_iter().flat_map(agents).collect()
    }

    /// What the benchmark made, and nothing else: a sandbox is ended by its name, whatever checkout the project's folder
    /// is taken for.
    fn clean(&self) {
        for sandbox in self.sandboxes() {
            let mut kill = self.command(&["kill", "--force", &sandbox]);
            // Out of reach of another Ctrl-C.
            kill.process_group(0).stdout(Stdio::null()).stderr(Stdio::null());
            let _ = kill.status();
        }
        for volume in self.named(&self.data.join("agents-sandbox/volumes")) {
            let _ = fs::remove_file(volume);
        }
        let _ = fs::remove_dir_all(&self.scratch);
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.clean();
    }
}

/// A checkout of its own: without that, the sandbox would be the one of the repository that the build's folder is in.
fn make_project(project: &Path) -> Outcome {
    fs::create_dir_all(project).map_err(|error| text(&error))?;
    let made = Command::new("git").args(["init", "--quiet"]).current_dir(project).status();
    let made = made.map_err(|error| format!("git: {error}"))?;
    if made.success() && project.join(".git").is_dir() {
        Ok(())
    } else {
        Err(format!("`git init` made no repository of {}", project.display()))
    }
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_project_is_no_part_of_the_repository_around_it() {
        let around = tempfile::tempdir().unwrap();
        make_project(around.path()).unwrap();
        let project = around.path().join("target/bench-1/bench-project");
        make_project(&project).unwrap();
        let top = Command::new("git").args(["rev-parse", "--show-toplevel"]).current_dir(&project).output();
        let top = String::from_utf8(top.unwrap().stdout).unwrap();
        assert_eq!(Path::new(top.trim_end()), project.canonicalize().unwrap());
    }

    #[test]
    fn only_what_the_benchmark_made_is_cleared_away() {
        let place = tempfile::tempdir().unwrap();
        let [program, told, scratch, data] =
            ["program", "told", "scratch", "data"].map(|name| place.path().join(name));
        // It notes what it is asked to do, and does nothing.
        fs::write(&program, format!("#!/bin/sh\necho \"$@\" >>{}\n", told.display())).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let volumes = data.join("agents-sandbox/volumes");
        fs::create_dir_all(&volumes).unwrap();
        let [made, other] = ["bench-project-1-opencode-0.ext4", "project-2-opencode-0.ext4"];
        for volume in [made, other] {
            fs::write(volumes.join(volume), "").unwrap();
        }
        let bench = || {
            let project = scratch.join("bench-project");
            make_project(&project).unwrap();
            let interrupt = Interrupt::watch().unwrap();
            let (program, scratch, data) = (program.clone(), scratch.clone(), data.clone());
            Bench { interrupt, program, project, scratch, data, memory: "1G" }
        };

        drop(bench());
        assert!(!told.exists(), "it made no sandbox, and ends {:?}", fs::read_to_string(&told));
        assert_eq!(entries(&volumes).len(), 2);

        let bench = bench();
        let state = scratch.join("state/agents-sandbox/bench-project-1");
        fs::create_dir_all(state.join("opencode")).unwrap();
        fs::write(state.join("approvals.json"), "").unwrap();
        drop(bench);
        assert_eq!(fs::read_to_string(&told).unwrap(), "kill --force bench-project-1-opencode\n");
        assert_eq!(entries(&volumes), [volumes.join(other)]);
        assert!(!scratch.exists());
    }
}

//! The processes of the sandbox on the host, and the files in its folder.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::bench_boot::{Bench, Outcome, text};

/// At least one of each while it runs; QEMU beside them.
const ROLES: [&str; 4] = ["keeper", "machine", "share", "network"];

/// Writes saved memory to the disk.
const SETTLES: &str = "settle-memory";

pub struct Host {
    program: PathBuf,
    dir: PathBuf,
}

type Figures = Vec<(String, u64)>;

impl Host {
    pub fn of(bench: &Bench) -> Outcome<Self> {
        let program = bench.program().canonicalize().map_err(|error| text(&error))?;
        Ok(Self { program, dir: bench.sandbox_dir()? })
    }

    /// Its processes by role.
    fn processes(&self) -> Outcome<BTreeMap<String, Vec<PathBuf>>> {
        let sandbox = self.dir.file_name().unwrap_or_default().to_string_lossy();
        let mut found: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
        for entry in fs::read_dir("/proc").map_err(|error| text(&error))?.flatten() {
            // A process in a user namespace of its own hides its link; its command line still tells.
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let words: Vec<_> = line.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
            let role = match &words[..] {
                [first, internal, role, ..]
                    if Path::new(&**first) == self.program && internal == "internal" =>
                {
                    role.to_string()
                }
                [first, name, word, ..]
                    if first.contains("qemu-system") && name == "-name" && *word == sandbox =>
                {
                    "qemu".into()
                }
                _ => continue,
            };
            found.entry(role).or_default().push(entry.path());
        }
        Ok(found)
    }

    /// Processes, descriptors, threads and memory by role, of a sandbox that runs.
    pub fn running(&self) -> Outcome<Figures> {
        let mut figures = Vec::new();
        let processes = self.processes()?;
        for role in ROLES.into_iter().chain(["qemu"]) {
            let found = processes.get(role).map(Vec::as_slice).unwrap_or_default();
            if found.is_empty() {
                return Err(format!("there is no process that is its {role}"));
            }
            let [mut descriptors, mut threads, mut memory] = [0; 3];
            for process in found {
                descriptors += fs::read_dir(process.join("fd")).map_err(|error| text(&error))?.count() as u64;
                let status = fs::read_to_string(process.join("status")).map_err(|error| text(&error))?;
                threads += field(&status, "Threads:");
                // What is a file's is the guest's own memory, and the program itself.
                memory += field(&status, "RssAnon:");
            }
            figures.push((format!("{role}: processes"), found.len() as u64));
            figures.push((format!("{role}: descriptors"), descriptors));
            figures.push((format!("{role}: threads"), threads));
            figures.push((format!("{role}: memory, KiB"), memory));
        }
        Ok(figures)
    }

    /// Waits until nothing runs for a sandbox that sleeps but what makes its memory last: one process, though the one of
    /// the sleep before may still wait for the disk.
    pub fn ends(&self, within: Duration) -> Outcome {
        let begin = Instant::now();
        loop {
            let mut left = self.processes()?;
            left.retain(|role, processes| match role.as_str() {
                SETTLES => processes.len() > 1,
                role => role == "qemu" || ROLES.contains(&role),
            });
            if left.is_empty() {
                return Ok(());
            }
            if begin.elapsed() > within {
                return Err(format!("it sleeps, and there are still {:?}", left.keys()));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Of a sandbox that sleeps: KiB on disk of each file in its folder, but of the saved memory.
    pub fn asleep(&self) -> Outcome<Figures> {
        use std::os::unix::fs::MetadataExt;
        let mut figures = Vec::new();
        for entry in fs::read_dir(&self.dir).map_err(|error| text(&error))?.flatten() {
            // What is renamed meanwhile has another name by now.
            let Ok(found) = entry.metadata() else { continue };
            let name = entry.file_name().to_string_lossy().into_owned();
            // Memory comes to the disk while nobody waits; it is counted as a whole. A record that is being written has
            // a name of its own.
            if !name.starts_with("memory.") && !name.starts_with('.') {
                figures.push((format!("{name}, KiB"), found.blocks() / 2));
            }
        }
        Ok(figures)
    }
}

/// A number of `/proc/*/status`; 0 where it is not there.
pub fn field(status: &str, name: &str) -> u64 {
    let value = status.lines().find_map(|line| line.strip_prefix(name));
    value.and_then(|value| value.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}

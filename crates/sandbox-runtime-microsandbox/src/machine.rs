//! The process of a machine: a quick word on whether a sandbox runs, where asking `msb` would take as long as
//! the command that somebody waits for.
//!
//! A boot notes its process, and whatever of ours ends a machine forgets the note first. So a noted process
//! that lives is a sandbox that runs, and about everything else `msb` is asked.

use std::path::Path;

use fs_err as fs;
use sandbox_model::SandboxName;
use sandbox_runtime::RuntimeError;

use crate::files::SandboxPaths;

/// Notes the machine that a boot left, if it can be seen. `home` has the program that it runs.
pub fn note(home: &Path, paths: &SandboxPaths, name: &SandboxName) -> Result<(), RuntimeError> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|process| process.file_name().to_str()?.parse::<u32>().ok());
    let mut machines = pids.filter(|pid| is_machine(*pid, home, name));
    match machines.next() {
        Some(pid) => Ok(fs::write(paths.machine(), pid.to_string())?),
        None => forget(paths),
    }
}

pub fn forget(paths: &SandboxPaths) -> Result<(), RuntimeError> {
    match fs::remove_file(paths.machine()) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// Whether the noted machine lives.
pub fn is_up(home: &Path, paths: &SandboxPaths, name: &SandboxName) -> bool {
    let noted = std::fs::read_to_string(paths.machine());
    noted.is_ok_and(|pid| pid.trim().parse().is_ok_and(|pid| is_machine(pid, home, name)))
}

/// A process that has ended and that nobody has waited for has neither words nor a program.
fn is_machine(pid: u32, home: &Path, name: &SandboxName) -> bool {
    let process = Path::new("/proc").join(pid.to_string());
    let Ok(line) = std::fs::read(process.join("cmdline")) else { return false };
    let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
    let named = |pair: &[&[u8]]| pair[0] == b"--name" && pair[1] == name.as_str().as_bytes();
    words.get(1) == Some(&b"machine".as_slice())
        && words.windows(2).any(named)
        && std::fs::read_link(process.join("exe")).is_ok_and(|program| program.starts_with(home))
}

//! The process of a machine: a quick word on whether a sandbox runs, where asking `msb` would take as long as
//! the command that somebody waits for; and a way to end it where `msb` does not answer.
//!
//! A boot notes its process, and whatever of ours ends a machine forgets the note first, and notes the rest once
//! that is there. So a noted process that lives is a sandbox that runs, a noted rest without any such process is
//! one at rest, and about everything else `msb` is asked.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use fs_err as fs;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use sandbox_model::SandboxName;
use sandbox_runtime::RuntimeError;

use crate::files::SandboxPaths;

/// In the place of a number.
const REST: &str = "at rest";
/// A process that was killed goes when its last system call ends.
const GOES_WITHIN: Duration = Duration::from_secs(5);

/// Notes the machine that a boot left, if it can be seen. `home` has the program that it runs.
pub fn note(home: &Path, paths: &SandboxPaths, name: &SandboxName) -> Result<(), RuntimeError> {
    match machines(home, name).next() {
        Some(pid) => Ok(fs::write(paths.machine(), pid.to_string())?),
        None => forget(paths),
    }
}

/// Notes that the machine was ended.
pub fn note_rest(paths: &SandboxPaths) -> Result<(), RuntimeError> {
    Ok(fs::write(paths.machine(), REST)?)
}

/// What is about to happen to the machine is in no note: until the next, only `msb` can tell. Harmless to
/// repeat.
pub fn forget(paths: &SandboxPaths) -> Result<(), RuntimeError> {
    match fs::remove_file(paths.machine()) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// The noted machine, if it lives: its number, and a descriptor that tells of its end.
pub fn watched(home: &Path, paths: &SandboxPaths, name: &SandboxName) -> Option<(u32, OwnedFd)> {
    let number = noted(paths)?;
    let pid = Pid::from_raw(i32::try_from(number).ok()?)?;
    let process = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    // The number may have become another's; from here on it is this process that is meant.
    is_machine(number, home, name).then_some((number, process))
}

/// Until the process of this descriptor has ended.
pub fn wait_for_end(process: &OwnedFd) -> Result<(), RuntimeError> {
    loop {
        match poll(&mut [PollFd::new(process, PollFlags::IN)], None) {
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(std::io::Error::from(error).into()),
        }
    }
}

/// The number in the note, while there is one.
pub fn noted(paths: &SandboxPaths) -> Option<u32> {
    std::fs::read_to_string(paths.machine()).ok()?.trim().parse().ok()
}

/// Whether a process of this number has not ended.
pub fn has_program(number: u32) -> bool {
    std::fs::read_link(Path::new("/proc").join(number.to_string()).join("exe")).is_ok()
}

/// What can be seen of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// The noted machine lives.
    Up,
    /// It was ended, and there is none.
    AtRest,
    /// Only `msb` can tell.
    Unclear,
}

/// Asks nobody: the note and the processes of this host tell.
pub fn look(home: &Path, paths: &SandboxPaths, name: &SandboxName) -> Seen {
    let noted = std::fs::read_to_string(paths.machine()).unwrap_or_default();
    match noted.trim().parse() {
        Ok(pid) if is_machine(pid, home, name) => Seen::Up,
        // One that was stopped may still be on its way out.
        Err(_) if noted.trim() == REST && !is_there(home, name) => Seen::AtRest,
        _ => Seen::Unclear,
    }
}

/// Whether there is a machine of this name, noted or not.
pub fn is_there(home: &Path, name: &SandboxName) -> bool {
    machines(home, name).next().is_some()
}

/// Kills every machine of this name; whether there was one, and it is gone.
pub fn end(home: &Path, name: &SandboxName) -> bool {
    let ends: Vec<bool> = machines(home, name).map(|pid| kill(pid, home, name)).collect();
    !ends.is_empty() && ends.into_iter().all(|gone| gone)
}

fn kill(number: u32, home: &Path, name: &SandboxName) -> bool {
    let Some(pid) = i32::try_from(number).ok().and_then(Pid::from_raw) else { return false };
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return true };
    // The number may have become another's; from here on it is this process that is meant.
    if !is_machine(number, home, name) {
        return true;
    }
    let limit = Timespec { tv_sec: GOES_WITHIN.as_secs().cast_signed(), tv_nsec: 0 };
    pidfd_send_signal(&process, Signal::KILL).is_ok()
        && poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&limit)).is_ok_and(|ready| ready > 0)
}

fn machines<'a>(home: &'a Path, name: &'a SandboxName) -> impl Iterator<Item = u32> + 'a {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|process| process.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| is_machine(*pid, home, name))
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

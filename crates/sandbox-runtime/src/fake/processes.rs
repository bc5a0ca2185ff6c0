//! Finds the processes of one boot by a mark in their environment, as build servers find the processes
//! that a build left behind. A process that clears its environment escapes, which a real guest cannot.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// The variable that every command of a fake sandbox carries; its value is the boot's id.
pub(super) const MARK: &str = "AGENTS_SANDBOX_FAKE_BOOT";
/// The same for the machine itself.
pub(super) const MACHINE_MARK: &str = "AGENTS_SANDBOX_FAKE_MACHINE";

fn marked(mark: &str, boot_id: &str) -> Vec<Pid> {
    let wanted = format!("{mark}={boot_id}");
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw)
        else {
            continue;
        };
        // Processes of others cannot be read, and zombies have no environment: neither is ours to end.
        let Ok(environment) = fs::read(entry.path().join("environ")) else { continue };
        if pid != rustix::process::getpid()
            && environment.split(|byte| *byte == 0).any(|entry| entry == wanted.as_bytes())
        {
            found.push(pid);
        }
    }
    found
}

/// Asks every process of a boot to end, and kills what is left after `grace`. Whether all of them ended
/// by themselves.
pub(super) fn end_all(boot_id: &str, grace: Duration) -> bool {
    let deadline = Instant::now() + grace;
    let mut asked = false;
    let mut pause = Duration::from_millis(1);
    loop {
        let left = marked(MARK, boot_id);
        if left.is_empty() {
            return true;
        }
        if Instant::now() >= deadline {
            kill_all(MARK, boot_id);
            return false;
        }
        if !asked {
            asked = true;
            for pid in left {
                let _ = kill_process(pid, Signal::TERM);
                // Interactive shells ignore the first one.
                let _ = kill_process(pid, Signal::HUP);
            }
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

pub(super) fn kill_all(mark: &str, boot_id: &str) {
    loop {
        let left = marked(mark, boot_id);
        if left.is_empty() {
            return;
        }
        for pid in left {
            let _ = kill_process(pid, Signal::KILL);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Holds every process of a boot where it is. Attended ones have lost their client.
pub(super) fn stop_all(boot_id: &str) {
    for pid in marked(MARK, boot_id) {
        let _ = kill_process(pid, Signal::STOP);
    }
}

pub(super) fn wake_all(boot_id: &str) {
    for pid in marked(MARK, boot_id) {
        let _ = kill_process(pid, Signal::CONT);
    }
}

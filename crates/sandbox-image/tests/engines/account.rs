//! A user that root makes for one test. Nothing that was ever its own outlives the value.

use std::fs;
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

const PATIENCE: Duration = Duration::from_secs(30);
/// Where everyone may leave something. Without a runtime folder of a login, rootless engines do.
const SHARED: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];

pub struct Account {
    pub name: String,
    pub home: PathBuf,
    /// The user's own id, and those that its namespaces may use.
    ids: Vec<Range<u32>>,
}

impl Account {
    pub fn make(name: String) -> Self {
        let home = Path::new("/home").join(&name);
        // The folder of somebody else would not be the new user's.
        assert!(!home.exists(), "{} is left from another run: remove it, and its user", home.display());
        said(Command::new("/usr/sbin/useradd").args(["--create-home", "--home-dir"]).arg(&home).args([
            "--shell",
            "/bin/bash",
            &name,
        ]))
        .unwrap();
        let id = said(Command::new("id").args(["-u", &name])).unwrap().trim().parse().unwrap();
        let ranges = fs::read_to_string("/etc/subuid").unwrap_or_default();
        let own = ranges.lines().filter_map(|line| range(line, &name));
        let ids: Vec<_> = counted(id, 1).into_iter().chain(own).collect();
        // Everything with one of these ids is ended and removed: nobody else's may be among them. Until that is
        // sure there is no value that would do so.
        assert!(ids.iter().all(|ids| ids.start >= 1000), "{ids:?}");
        Self { name, home, ids }
    }

    fn owns(&self, id: u32) -> bool {
        self.ids.iter().any(|ids| ids.contains(&id))
    }

    /// Whether it runs with one of the user's ids. What is dead, and only not yet collected, hinders nobody.
    fn runs(&self, pid: Pid) -> bool {
        let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).unwrap_or_default();
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
        let dead = field("State:").is_none_or(|state| state.trim_start().starts_with(['Z', 'X']));
        let ids = field("Uid:").unwrap_or_default();
        !dead && ids.split_whitespace().filter_map(|id| id.parse().ok()).any(|id| self.owns(id))
    }

    fn processes(&self) -> Vec<Pid> {
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        numbers.filter_map(Pid::from_raw).filter(|pid| self.runs(*pid)).collect()
    }

    /// `userdel` refuses while one of them lives.
    fn end_processes(&self) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            let living = self.processes();
            if living.is_empty() {
                return Ok(());
            }
            if begun.elapsed() > PATIENCE {
                return Err(format!("processes of {} do not end: {living:?}", self.name));
            }
            for pid in living {
                let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
                // Still the same one: its number cannot be another's while it is held.
                if self.runs(pid) {
                    let _ = pidfd_send_signal(&process, Signal::KILL);
                }
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn clear(&self, folder: &str) -> io::Result<()> {
        let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
        for entry in entries.flatten() {
            let Ok(metadata) = fs::symlink_metadata(entry.path()) else { continue };
            if self.owns(metadata.uid()) {
                let path = entry.path();
                if metadata.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }?;
            }
        }
        Ok(())
    }

    fn remove(&self) -> Result<(), String> {
        self.end_processes()?;
        for folder in SHARED {
            self.clear(folder).map_err(|error| format!("{folder}: {error}"))?;
        }
        // Layers of a rootless engine belong to the user's other ids; root's recursion takes them.
        said(Command::new("/usr/sbin/userdel").args(["--remove", &self.name]))?;
        if self.home.exists() { Err(format!("{} is still there", self.home.display())) } else { Ok(()) }
    }
}

impl Drop for Account {
    #[allow(clippy::print_stderr, reason = "what is left is said also where the test has failed already")]
    fn drop(&mut self) {
        if let Err(problem) = self.remove() {
            eprintln!("the user {} is left behind: {problem}", self.name);
            assert!(std::thread::panicking(), "the user {} is left behind: {problem}", self.name);
        }
    }
}

/// What a program said that succeeded; what it complained about, if not.
fn said(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{command:?}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr)))
}

/// The ids of one line of `/etc/subuid`, if it is about `name`.
fn range(line: &str, name: &str) -> Option<Range<u32>> {
    let mut fields = line.split(':');
    if fields.next()? != name {
        return None;
    }
    counted(fields.next()?.parse().ok()?, fields.next()?.trim().parse().ok()?)
}

fn counted(start: u32, count: u32) -> Option<Range<u32>> {
    Some(start..start.checked_add(count)?)
}

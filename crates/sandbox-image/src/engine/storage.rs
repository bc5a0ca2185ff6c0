use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use fs_err as fs;
use sandbox_model::SecretValue;
use sandbox_state::{Lock, LockMode, StateError, make_private_dir, write_private};
use sha2::{Digest, Sha256};

use super::{EngineSettings, capture};
use crate::{Result, files};

/// podman refuses longer ones, because sockets live below.
const LONGEST_RUN_ROOT: usize = 50;
const SWEEPS: u32 = 10;
const SWEEP_PAUSE: Duration = Duration::from_millis(500);
const INFO_DEADLINE: Duration = Duration::from_mins(1);

/// Our own image storage for podman and buildah, which share its format.
#[derive(Debug, Clone)]
pub(super) struct Storage {
    dir: PathBuf,
    root: PathBuf,
    run_root: PathBuf,
    driver: String,
    environment: Vec<(&'static str, Option<SecretValue>)>,
}

impl Storage {
    /// Opens the storage with the program that will use it; `Err` of the inner result says why that one
    /// cannot. The driver that works is found once and remembered, because a storage cannot change it.
    pub(super) fn open(
        program: &Path,
        tool: &str,
        settings: &EngineSettings,
    ) -> Result<Result<Self, String>> {
        make_private_dir(&settings.dir)?;
        let root = files::storage(&settings.dir);
        let run_root = run_root(&root, settings.runtime_dir.as_deref());
        make_private_dir(&run_root)?;
        let remembered = files::storage_driver(&settings.dir);
        let candidates: Vec<String> = match fs::read_to_string(&remembered) {
            Ok(driver) => vec![driver.trim().to_string()],
            Err(_) => vec!["overlay".into(), "vfs".into()],
        };
        let mut problem = String::new();
        for driver in candidates {
            let storage = Self {
                dir: settings.dir.clone(),
                root: root.clone(),
                run_root: run_root.clone(),
                driver,
                environment: settings.environment.clone(),
            };
            let mut command = Command::new(program);
            storage.apply(&mut command);
            command.arg("info");
            let answer = capture(command, tool, INFO_DEADLINE)?;
            if answer.success {
                write_private(&remembered, storage.driver.as_bytes())?;
                return Ok(Ok(storage));
            }
            problem = answer.problem;
        }
        Ok(Err(problem))
    }

    /// Runs `build` beside other builds. A build that fails, is cancelled or dies leaves containers and
    /// mounts behind; `sweep` removes all there are, and is called when no other build is under way.
    pub(super) fn while_building<T>(
        &self,
        sweep: impl Fn() -> Result<()>,
        build: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let path = files::builds_lock(&self.dir);
        let sweep_alone = || match Lock::try_take(&path, LockMode::Exclusive, "sweep") {
            Ok(_alone) => sweep(),
            Err(StateError::Held { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        };
        // Leftovers cost space, but do not hinder the build.
        let _ = sweep_alone();
        let shared = Lock::take(&path, LockMode::Shared, "build", |_| {})?;
        let result = build();
        drop(shared);
        if result.is_err() {
            // The last processes of a build that was ended keep its mounts busy for a moment. Its own error
            // is the one to report; the next build sweeps again.
            for attempt in 0..SWEEPS {
                if attempt > 0 {
                    std::thread::sleep(SWEEP_PAUSE);
                }
                if sweep_alone().is_ok() {
                    break;
                }
            }
        }
        result
    }

    /// Adds the options that come before the engine's verb.
    pub(super) fn apply(&self, command: &mut Command) {
        command.arg("--root").arg(&self.root).arg("--runroot").arg(&self.run_root);
        command.arg("--storage-driver").arg(&self.driver);
        // The user's own settings for the storage must not reach ours.
        command.env_remove("STORAGE_DRIVER").env_remove("STORAGE_OPTS");
        for (name, value) in &self.environment {
            match value {
                Some(value) => command.env(name, value.reveal()),
                None => command.env_remove(name),
            };
        }
    }
}

/// A short folder of our own that a reboot empties (or leaves behind under another name).
fn run_root(root: &Path, runtime_dir: Option<&Path>) -> PathBuf {
    let uid = rustix::process::geteuid().as_raw();
    let name = |salt: &str| {
        let hash =
            Sha256::new().chain_update(root.as_os_str().as_encoded_bytes()).chain_update(salt).finalize();
        format!("agents-sandbox-{}", &hex::encode(hash)[..10])
    };
    let system = PathBuf::from(format!("/run/user/{uid}"));
    let found = [runtime_dir.map(PathBuf::from), Some(system), (uid == 0).then(|| "/run".into())]
        .into_iter()
        .flatten()
        .filter(|dir| dir.is_dir())
        .map(|dir| dir.join(name("")))
        .find(|dir| dir.as_os_str().len() <= LONGEST_RUN_ROOT);
    found.unwrap_or_else(|| {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        PathBuf::from("/tmp").join(format!("{}-{uid}", name(&boot)))
    })
}

/// Why an ordinary user cannot build without root on this machine, if so.
pub(super) fn rootless_problem() -> Option<String> {
    let uid = rustix::process::geteuid().as_raw();
    if uid == 0 {
        return None;
    }
    if which::which("newuidmap").is_err() {
        return Some("newuidmap is not installed (package uidmap)".into());
    }
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let switch = fs::read_to_string("/etc/nsswitch.conf").unwrap_or_default();
    if switch.lines().any(|line| line.trim_start().starts_with("subid:")) {
        return None;
    }
    for file in ["/etc/subuid", "/etc/subgid"] {
        let ranges = fs::read_to_string(file).unwrap_or_default();
        if !has_range(&ranges, uid, name_of(&passwd, uid)) {
            return Some(format!("{file} gives this user no ids"));
        }
    }
    None
}

fn name_of(passwd: &str, uid: u32) -> Option<&str> {
    let uid = uid.to_string();
    passwd.lines().find(|line| line.split(':').nth(2) == Some(&uid)).and_then(|line| line.split(':').next())
}

fn has_range(ranges: &str, uid: u32, name: Option<&str>) -> bool {
    let uid = uid.to_string();
    ranges.lines().filter_map(|line| line.split(':').next()).any(|owner| owner == uid || Some(owner) == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_counts_by_name_or_by_number() {
        let passwd = "root:x:0:0::/root:/bin/sh\nann:x:1001:1001::/home/ann:/bin/sh\n";
        assert_eq!(name_of(passwd, 1001), Some("ann"));
        assert!(has_range("ann:100000:65536\n", 1001, name_of(passwd, 1001)));
        assert!(has_range("1001:100000:65536\n", 1001, None));
        assert!(!has_range("bob:100000:65536\n", 1001, name_of(passwd, 1001)));
    }

    #[test]
    fn the_run_root_is_short_and_differs_by_storage() {
        let dir = tempfile::tempdir().unwrap();
        let long = dir.path().join("x".repeat(100));
        fs::create_dir(&long).unwrap();
        let one = run_root(Path::new("/a"), Some(&long));
        assert!(one.as_os_str().len() <= LONGEST_RUN_ROOT && !one.starts_with(&long), "{}", one.display());
        assert_ne!(one, run_root(Path::new("/b"), Some(&long)));
        let short = tempfile::Builder::new().prefix("r").tempdir_in("/tmp").unwrap();
        assert!(run_root(Path::new("/a"), Some(short.path())).starts_with(short.path()));
    }
}

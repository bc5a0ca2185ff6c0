//! Whether this computer can run microsandbox at all. A device that opens proves nothing: only a guest that
//! answers does.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fs_err as fs;
use sandbox_model::{Digest, InvalidName, SandboxName};
use sandbox_runtime::RuntimeError;
use sandbox_state::{Layout, MsbFiles, make_private_dir};
use sha2::Digest as _;

use crate::call::{Msb, problem};
use crate::command;
use crate::error::from_state;
use crate::files::Files;
use crate::install::Installed;
use crate::machine;
use crate::patience::Patience;

/// How much of the machine's log goes into the answer.
const LOG_TAIL: usize = 600;

/// Boots a smallest sandbox in a home of its own, powers it off, and leaves nothing. `Ok(Err(…))` is a boot
/// that failed, or took longer than `deadline`, and why; any other error proves nothing.
///
/// The caller sees to it that only one runs at a time.
pub fn first_boot(
    layout: &Layout,
    installed: &Installed,
    deadline: Duration,
) -> Result<Result<(), String>, RuntimeError> {
    with_patience(layout, installed, deadline, Patience::default())
}

fn with_patience(
    layout: &Layout,
    installed: &Installed,
    deadline: Duration,
    patience: Patience,
) -> Result<Result<(), String>, RuntimeError> {
    let name: SandboxName =
        command::TRIAL.parse().map_err(|error: InvalidName| RuntimeError::other(error.to_string()))?;
    let home = Home::new(layout, installed)?;
    let msb = Msb::new(installed.msb.clone(), &home.files, patience);
    let (digest, archive) = smallest_image()?;
    let said = msb.feed(&command::load(&digest), &mut archive.as_slice(), msb.patience.work)?;
    if said.code != Some(0) {
        let problem = problem(&said.stderr);
        return Err(RuntimeError::other(format!("its smallest image could not be loaded: {problem}")));
    }
    let began = Instant::now();
    let outcome = match msb.try_boot(&command::trial(&digest), deadline) {
        Ok(said) if said.code == Some(0) => Ok(()),
        Ok(said) => Err(format!("a first boot failed: {}", with_log(problem(&said.stderr), &home))),
        Err(_) if began.elapsed() >= deadline => {
            Err(format!("a first boot was not done after {} seconds", deadline.as_secs()))
        }
        Err(error) => return Err(error),
    };
    // It may be up, half up, or gone.
    let ended = msb.try_run(&command::end_trial(), msb.patience.ask);
    // Its home goes, and whatever became of the power-off, no machine is to live on without it.
    machine::end(&layout.msb(), &name);
    match ended {
        // What came of the boot is known all the same.
        Ok(_) | Err(RuntimeError::NoAnswer { .. }) => Ok(outcome),
        Err(error) => Err(error),
    }
}

/// The first line that tells something, with the last words of the machine.
fn with_log(problem: String, home: &Home) -> String {
    let log = home.dir.join("sandboxes").join(command::TRIAL).join("logs/runtime.log");
    let log = fs::read(log).unwrap_or_default();
    let tail = String::from_utf8_lossy(&log[log.len().saturating_sub(LOG_TAIL)..]).into_owned();
    match tail.lines().rev().find(|line| line.contains("ERROR") || line.contains("error")) {
        Some(line) => format!("{problem}; {}", line.trim()),
        None => problem,
    }
}

/// A home that goes with this value.
struct Home {
    dir: PathBuf,
    files: Files,
}

impl Home {
    fn new(layout: &Layout, installed: &Installed) -> Result<Self, RuntimeError> {
        let dir = Files::trial(&layout.msb());
        let home = Self { files: Files { home: MsbFiles { dir: dir.clone() } }, dir };
        // What a killed trial left.
        home.clear()?;
        make_private_dir(&home.dir).map_err(from_state)?;
        for (name, file) in [("bin", &installed.msb), ("lib", &installed.libkrunfw)] {
            let folder = file.parent().unwrap_or(Path::new("/"));
            std::os::unix::fs::symlink(folder, home.dir.join(name))?;
        }
        Ok(home)
    }

    fn clear(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.dir) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // The next trial clears what is left.
        let _ = self.clear();
    }
}

/// A docker archive of folders and nothing else: the guest's first process comes with the runtime.
fn smallest_image() -> io::Result<(Digest, Vec<u8>)> {
    let mut layer = tar::Builder::new(Vec::new());
    for folder in ["dev/", "etc/", "proc/", "run/", "sys/", "tmp/"] {
        append(&mut layer, folder, &[])?;
    }
    append(&mut layer, "etc/passwd", b"root:x:0:0:root:/:/bin/sh\n")?;
    let layer = layer.into_inner()?;
    let config = serde_json::to_vec(&serde_json::json!({
        "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
        "os": "linux",
        "config": {},
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{}", hash(&layer))] },
        "history": [],
    }))?;
    let id = hash(&config);
    let manifest = serde_json::json!([{ "Config": "config.json", "RepoTags": [], "Layers": ["layer.tar"] }]);
    let mut archive = tar::Builder::new(Vec::new());
    append(&mut archive, "config.json", &config)?;
    append(&mut archive, "layer.tar", &layer)?;
    append(&mut archive, "manifest.json", &serde_json::to_vec(&manifest)?)?;
    Ok((id.parse().map_err(io::Error::other)?, archive.into_inner()?))
}

fn append<W: Write>(to: &mut tar::Builder<W>, path: &str, content: &[u8]) -> io::Result<()> {
    let folder = path.ends_with('/');
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(if folder { tar::EntryType::Directory } else { tar::EntryType::Regular });
    header.set_size(content.len() as u64);
    header.set_mode(if folder { 0o755 } else { 0o644 });
    to.append_data(&mut header, path, content)
}

fn hash(bytes: &[u8]) -> String {
    hex::encode(sha2::Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::process::{Command, Stdio};

    use sandbox_state::Environment;

    use super::*;
    use crate::install::VERSION;

    #[test]
    fn one_that_hangs_with_its_power_off_leaves_its_verdict_and_no_machine() {
        let dir = tempfile::tempdir().unwrap();
        let environment = Environment { home: Some(dir.path().into()), ..Environment::default() };
        let layout = Layout::new(&environment).unwrap();
        let home = layout.msb();
        make_private_dir(&home).unwrap();
        // What the boot has begun: it ends with its input.
        fs::copy("/bin/sh", home.join("msb")).unwrap();
        fs::write(home.join("machine"), "read end\n").unwrap();
        let mut machine = Command::new(home.join("msb"))
            .args(["machine", "--name", command::TRIAL])
            .current_dir(&home)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let msb = home.join("script");
        fs::write(&msb, "#!/bin/sh\ncase $1 in load) cat >/dev/null ;; *) exec sleep 600 ;; esac\n").unwrap();
        fs::set_permissions(&msb, PermissionsExt::from_mode(0o755)).unwrap();
        let installed = Installed { version: VERSION, libkrunfw: msb.clone(), msb };
        let second = Duration::from_secs(1);
        let patience = Patience { ask: second, ..Patience::default() };
        let outcome = with_patience(&layout, &installed, second, patience).unwrap();
        assert_eq!(outcome, Err("a first boot was not done after 1 seconds".into()));
        assert!(machine.try_wait().unwrap().is_some(), "it lives");
    }
}

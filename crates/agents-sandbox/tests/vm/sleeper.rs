//! A sandbox that sleeps and wakes, and what may be done to it on the way.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use sandbox_model::{
    ExecSpec, ExitStatus, ExtraMount, NetworkPolicy, NetworkProfile, SandboxName, SandboxSpec,
};
use sandbox_runtime::contract::Harness;
use sandbox_runtime::{Runtime, StopOutcome};

use crate::contract::QemuHarness;

pub type Outcome<T = ()> = Result<T, String>;

pub const GRACE: Duration = Duration::from_secs(10);

pub fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// A sandbox with a card, so that all three helpers run, and a file everywhere that must stay.
pub struct Sleeper {
    harness: QemuHarness,
    pub spec: SandboxSpec,
    writes: u32,
}

impl Sleeper {
    pub fn new(name: &str) -> Outcome<Self> {
        Self::with(name, |_| Ok(Vec::new()))
    }

    /// With folders of the host beside the checkout.
    pub fn with(name: &str, mounts: impl FnOnce(&QemuHarness) -> Outcome<Vec<ExtraMount>>) -> Outcome<Self> {
        let harness = QemuHarness::new()?;
        if !harness.runtime().capabilities().sleep {
            return Err(
                "this QEMU cannot save memory: 8.2 or newer is needed (scripts/install-needs test)".into()
            );
        }
        let made = harness.image();
        let spec = SandboxSpec {
            network: NetworkPolicy { profile: NetworkProfile::Host, ..NetworkPolicy::default() },
            mounts: mounts(&harness)?,
            sleep: true,
            ..crate::spec::plain(&harness, name)?
        };
        let mut archive = fs::File::open(&made.archive).map_err(text)?;
        let runtime = harness.runtime();
        runtime.load_image(&made.reference, &made.digest, &mut archive, &mut |_, _| {}).map_err(text)?;
        runtime.create(&spec).map_err(text)?;
        runtime.start(&spec.name).map_err(text)?;
        Ok(Self { harness, spec, writes: 0 })
    }

    pub fn runtime(&self) -> &dyn Runtime {
        self.harness.runtime()
    }

    pub fn name(&self) -> &SandboxName {
        &self.spec.name
    }

    pub fn dir(&self) -> PathBuf {
        self.harness.sandbox_dir(self.name())
    }

    pub fn sh_as(&self, script: &str, root: bool) -> Outcome<String> {
        let mut spec = ExecSpec::new(["sh", "-c", script]);
        if root {
            spec.user = sandbox_model::ExecUser::Root;
        }
        let done = self.runtime().exec(self.name(), &spec).and_then(sandbox_runtime::ExecSession::collect);
        let done = done.map_err(text)?;
        if done.status != ExitStatus::SUCCESS {
            return Err(format!("`{script}`: {}", String::from_utf8_lossy(&done.stderr)));
        }
        Ok(String::from_utf8_lossy(&done.stdout).trim().to_string())
    }

    pub fn sh(&self, script: &str) -> Outcome<String> {
        self.sh_as(script, false)
    }

    /// One line more on each disk, safe from a power cut.
    pub fn write(&mut self) -> Outcome {
        self.writes += 1;
        self.sh("echo line >>$HOME/kept; echo line >>/workspace/kept")?;
        self.sh_as("echo line >>/var/kept; sync", true).map(drop)
    }

    /// It runs (again), and every line that was written before a sleep is there.
    pub fn check(&self, when: &str) -> Outcome {
        self.runtime().start(self.name()).map_err(|error| format!("{when}: it does not start: {error}"))?;
        let shown = self.sh("cat $HOME/kept | wc -l; cat /workspace/kept | wc -l; cat /var/kept | wc -l")?;
        let wanted = [self.writes.to_string(), self.writes.to_string(), self.writes.to_string()].join("\n");
        if shown.split_whitespace().collect::<Vec<_>>().join("\n") != wanted {
            return Err(format!("{when}: {} lines were written, there are {shown:?}", self.writes));
        }
        let mounts = self.sh("grep -E ' (/|/home/dev) ' /proc/mounts")?;
        if mounts.contains(" ro,") {
            return Err(format!("{when}: a disk is not writable: {mounts}"));
        }
        Ok(())
    }

    pub fn fall_asleep(&self) -> Outcome {
        let slept = self.runtime().sleep(self.name(), None, GRACE).map_err(text)?;
        if slept.outcome == StopOutcome::Asleep {
            Ok(())
        } else {
            Err(format!("it did not fall asleep: {slept:?}"))
        }
    }

    /// A word in the guest's memory alone: whether it is there tells a wake from a boot.
    pub fn mark(&self) -> Outcome {
        self.sh("touch /tmp/mark").map(drop)
    }

    pub fn is_marked(&self) -> Outcome<bool> {
        Ok(self.sh("ls /tmp")?.contains("mark"))
    }

    /// Waits until the memory and its record are on the disk.
    pub fn is_on_disk(&self) -> Outcome {
        let deadline = Instant::now() + Duration::from_mins(1);
        while !fs::read_to_string(self.dir().join("memory.json")).map_err(text)?.contains("\"on-disk\"") {
            if Instant::now() > deadline {
                return Err("its memory does not reach the disk".into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Kills whoever writes its memory to the disk, if it is not done by now.
    pub fn kill_holder(&self) {
        for (pid, words, _) in processes_with_words() {
            if words.get(2).is_some_and(|word| word == "settle-memory")
                && words.get(3).is_some_and(|word| Path::new(word) == self.dir())
            {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }

    /// Bytes of the host's memory that the guest's takes.
    pub fn memory_taken(&self) -> Outcome<u64> {
        use std::os::unix::fs::MetadataExt;
        for qemu in processes(&self.dir(), "qemu") {
            let descriptors = format!("/proc/{}/fd", qemu.as_raw_nonzero());
            for entry in fs::read_dir(descriptors).map_err(text)?.flatten() {
                let link = fs::read_link(entry.path()).unwrap_or_default();
                if link.to_string_lossy().starts_with("/memfd:agents-sandbox-ram") {
                    return Ok(fs::metadata(entry.path()).map_err(text)?.blocks() * 512);
                }
            }
        }
        Err("its memory is not found".into())
    }

    /// Kills one of the sandbox's processes, if it is there by now.
    pub fn kill(&self, part: &str) {
        for pid in processes(&self.dir(), part) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.runtime().kill(self.name());
        let _ = self.runtime().remove(self.name());
    }
}

/// The sandbox's QEMU, machine process, or a helper of it: the children of the machine process.
fn processes(dir: &Path, part: &str) -> Vec<Pid> {
    let machine = crate::contract::machine_pid(dir).ok().and_then(Pid::from_raw);
    let mut found = Vec::new();
    for (pid, words, parent) in processes_with_words() {
        let is_part = match part {
            "qemu" => words[0].contains("qemu-system"),
            part => words[1] == "internal" && words.get(2).is_some_and(|word| word == part),
        };
        if is_part && machine.is_some() && (Some(pid) == machine || parent == machine) {
            found.push(pid);
        }
    }
    found
}

/// Every process with at least two words on its command line: its number, the words, its parent's number.
fn processes_with_words() -> Vec<(Pid, Vec<String>, Option<Pid>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        let Some(pid) = pid else { continue };
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let words: Vec<_> =
            line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into()).collect();
        let parent = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let parent = parent.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)?.parse().ok());
        if words.len() >= 2 {
            found.push((pid, words, parent.and_then(Pid::from_raw)));
        }
    }
    found
}

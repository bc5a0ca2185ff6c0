use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use sandbox_model::{ByteSize, SandboxName, SecretValues, Status};
use serde::{Deserialize, Serialize};

use super::faults::Faults;
use super::processes;
use super::store::{Record, Store, open_lock, read_json, write_json};
use crate::{Result, RuntimeError, Slept, StopOutcome};

/// `boot.json`: a machine that is meant to be up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Boot {
    id: String,
    /// What its processes carry: the id of the first boot, where others slept in between.
    mark: String,
    /// Only true while the machine's lock is held.
    pid: Option<i32>,
    ready: bool,
    draining: bool,
    /// Why the boot failed.
    problem: Option<String>,
}

/// `memory.json`: what sleeps.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Memory {
    mark: String,
}

/// The power switch of one sandbox.
///
/// ```text
/// lock held │ boot.json            │ status
/// ──────────┼──────────────────────┼──────────────────────────────────────────────
/// no        │ none, or draining    │ created (never started) or stopped
/// no        │ any other            │ crashed
/// yes       │ draining             │ draining
/// yes       │ ready                │ running
/// yes       │ not ready, or none   │ starting; crashed when nobody is starting it
/// ```
pub(super) struct Machine<'a> {
    store: &'a Store,
    name: &'a SandboxName,
}

impl<'a> Machine<'a> {
    pub const fn new(store: &'a Store, name: &'a SandboxName) -> Self {
        Self { store, name }
    }

    /// The lock under which a machine is started, stopped, changed or removed.
    pub fn control(&self) -> Result<File> {
        let file = open_lock(&self.store.control_lock(self.name))?;
        file.lock()?;
        Ok(file)
    }

    fn boot(&self) -> Result<Option<Boot>> {
        read_json(&self.store.boot_path(self.name))
    }

    fn is_alive(&self) -> Result<bool> {
        is_held(&open_lock(&self.store.machine_lock(self.name))?)
    }

    pub fn boot_id(&self) -> Result<Option<String>> {
        Ok(self.boot()?.map(|boot| boot.id))
    }

    pub fn guest_boot(&self) -> Result<Option<String>> {
        Ok(self.boot()?.map(|boot| boot.mark))
    }

    pub fn problem(&self) -> Result<Option<String>> {
        Ok(self.boot()?.and_then(|boot| boot.problem))
    }

    pub fn live_pid(&self) -> Result<Option<u32>> {
        let pid = self.boot()?.and_then(|boot| boot.pid);
        Ok(if self.is_alive()? { pid.and_then(|pid| pid.try_into().ok()) } else { None })
    }

    pub fn status(&self, record: &Record) -> Result<Status> {
        match self.status_under_control(record)? {
            // Half-way up: somebody is at it, or was.
            Status::Crashed if self.is_alive()? => {
                let control = open_lock(&self.store.control_lock(self.name))?;
                if is_held(&control)? { Ok(Status::Starting) } else { self.status_under_control(record) }
            }
            status => Ok(status),
        }
    }

    /// Like [`Machine::status`] for whoever holds the control lock: nobody else is starting it.
    pub fn status_under_control(&self, record: &Record) -> Result<Status> {
        loop {
            let boot = self.boot()?;
            let alive = self.is_alive()?;
            if self.boot()? != boot {
                continue;
            }
            return Ok(match (alive, boot) {
                (false, None) if !record.ever_started => Status::Created,
                (false, None) => Status::Stopped,
                (false, Some(boot)) if boot.draining => Status::Stopped,
                (true, Some(boot)) if boot.draining => Status::Draining,
                (true, Some(boot)) if boot.ready => Status::Running,
                (false, Some(_)) | (true, _) => Status::Crashed,
            });
        }
    }

    /// The mark of a running machine's processes; waits for a boot under way.
    pub fn require_running(&self, action: &'static str) -> Result<(String, Pid)> {
        loop {
            let record = self.store.require(self.name)?;
            match self.status(&record)? {
                Status::Running => {
                    if let Some(Boot { mark, pid: Some(pid), ready: true, .. }) = self.boot()?
                        && let Some(pid) = Pid::from_raw(pid)
                    {
                        return Ok((mark, pid));
                    }
                }
                Status::Starting => drop(self.control()?),
                status => {
                    return Err(RuntimeError::WrongStatus { name: self.name.clone(), status, action });
                }
            }
        }
    }

    pub fn start(&self, values: &SecretValues) -> Result<()> {
        let _control = self.control()?;
        let mut record = self.store.require(self.name)?;
        if self.status_under_control(&record)? == Status::Running {
            return Ok(());
        }
        crate::check_secrets(&record.spec, values)?;
        self.power_off()?;
        record.ever_started = true;
        self.store.write(record)?;

        let faults = Faults::read(self.store)?;
        let lock = open_lock(&self.store.machine_lock(self.name))?;
        lock.lock()?;
        let id = fs::read_to_string("/proc/sys/kernel/random/uuid")?.trim().to_string();
        let mark = self.memory()?.map_or_else(|| id.clone(), |memory| memory.mark);
        let mut boot = Boot { id, mark, pid: None, ready: false, draining: false, problem: None };
        self.write_boot(&boot)?;
        // The machine holds the lock as its stdin: no descriptor of ours keeps it alive.
        let mut machine = Command::new("sleep")
            .arg("infinity")
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env(processes::MACHINE_MARK, &boot.id)
            .current_dir("/")
            .stdin(Stdio::from(lock))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        boot.pid = machine.id().try_into().ok();
        self.write_boot(&boot)?;
        // Reaped by whichever program started it, for as long as that lives.
        std::thread::spawn(move || machine.wait());

        self.log(&self.store.machine_log(self.name), &format!("boot {}", boot.id))?;
        let ready = Instant::now() + Duration::from_millis(faults.boot_millis);
        while self.is_alive()? && Instant::now() < ready {
            std::thread::sleep(
                ready.saturating_duration_since(Instant::now()).min(Duration::from_millis(20)),
            );
        }
        let problem = match faults.boot_fails {
            None if self.is_alive()? => None,
            None => Some("the machine went away while it booted".to_string()),
            Some(problem) => Some(problem),
        };
        if let Some(problem) = problem {
            self.log(&self.store.console_log(self.name), &problem)?;
            self.kill_machine()?;
            self.forget_memory()?;
            boot.problem = Some(problem.clone());
            self.write_boot(&boot)?;
            let log = fs::read_to_string(self.store.console_log(self.name)).unwrap_or_default();
            return Err(RuntimeError::BootFailed { name: self.name.clone(), problem, log });
        }
        self.log(&self.store.console_log(self.name), "ready")?;
        if self.memory()?.is_some() {
            processes::wake_all(&boot.mark);
            fs::remove_file(self.store.memory_path(self.name))?;
        }
        boot.ready = true;
        self.write_boot(&boot)
    }

    pub fn stop(&self, grace: Duration) -> Result<StopOutcome> {
        let _control = self.control()?;
        let record = self.store.require(self.name)?;
        if self.status_under_control(&record)?.is_at_rest() {
            self.power_off_if_half_up()?;
            return Ok(StopOutcome::AlreadyAtRest);
        }
        let faults = Faults::read(self.store)?;
        if let Some(problem) = faults.stop_fails {
            return Err(RuntimeError::other(problem));
        }
        let mut outcome = StopOutcome::Graceful;
        if let Some(mut boot) = self.boot()? {
            boot.draining = true;
            self.write_boot(&boot)?;
            if !processes::end_all(&boot.mark, grace) {
                outcome = StopOutcome::Forced;
            }
            std::thread::sleep(Duration::from_millis(faults.stop_millis));
        }
        self.power_off()?;
        self.log(&self.store.machine_log(self.name), "power off")?;
        self.store.write(record)?;
        Ok(outcome)
    }

    /// Stops the processes instead of ending them; nothing attends them any more.
    pub fn sleep(&self, boot_id: Option<&str>, grace: Duration) -> Result<Slept> {
        let control = self.control()?;
        let record = self.store.require(self.name)?;
        let at_rest = self.status_under_control(&record)?.is_at_rest();
        let other = |boot: &Boot| boot_id.is_some_and(|meant| meant != boot.id);
        let boot = match self.boot()?.filter(|_| !at_rest) {
            Some(boot) if !other(&boot) => boot,
            _ => return Ok(Slept { outcome: StopOutcome::AlreadyAtRest, why_not: None }),
        };
        if !record.spec.sleep {
            drop(control);
            let why_not = Some("its settings do not allow it".into());
            return Ok(Slept { outcome: self.stop(grace)?, why_not });
        }
        if let Some(problem) = Faults::read(self.store)?.stop_fails {
            return Err(RuntimeError::other(problem));
        }
        processes::stop_all(&boot.mark);
        write_json(&self.store.memory_path(self.name), &Memory { mark: boot.mark })?;
        self.kill_machine()?;
        fs::remove_file(self.store.boot_path(self.name))?;
        self.log(&self.store.machine_log(self.name), "asleep")?;
        self.store.write(record)?;
        Ok(Slept { outcome: StopOutcome::Asleep, why_not: None })
    }

    fn memory(&self) -> Result<Option<Memory>> {
        read_json(&self.store.memory_path(self.name))
    }

    /// Ends what sleeps. The caller holds the control lock.
    pub fn forget_memory(&self) -> Result<Option<ByteSize>> {
        let Some(memory) = self.memory()? else { return Ok(None) };
        let size = self.store.saved_memory(self.name);
        processes::kill_all(processes::MARK, &memory.mark);
        fs::remove_file(self.store.memory_path(self.name))?;
        Ok(size)
    }

    pub fn kill(&self) -> Result<()> {
        let record = self.store.require(self.name)?;
        if self.status(&record)?.is_at_rest() {
            return self.power_off_if_half_up();
        }
        // Before the control lock: a boot or a stop that hangs holds it.
        self.kill_machine()?;
        let _control = self.control()?;
        if let Some(mut boot) = self.boot()? {
            boot.draining = true;
            self.write_boot(&boot)?;
        }
        self.power_off()?;
        self.log(&self.store.machine_log(self.name), "killed")?;
        self.store.write(record)
    }

    pub fn remove(&self) -> Result<()> {
        let _control = self.control()?;
        if let Ok(Some(record)) = self.store.read(self.name) {
            let status = self.status_under_control(&record)?;
            if !status.is_at_rest() {
                let name = self.name.clone();
                return Err(RuntimeError::WrongStatus { name, status, action: "be removed" });
            }
        }
        self.power_off()?;
        self.forget_memory()?;
        match fs::remove_dir_all(self.store.sandbox(self.name)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn power_off_if_half_up(&self) -> Result<()> {
        if self.is_alive()? {
            let _ = self.kill_machine();
        }
        Ok(())
    }

    /// Ends whatever is left of a boot, and forgets it.
    fn power_off(&self) -> Result<()> {
        self.kill_machine()?;
        if let Ok(Some(boot)) = self.boot() {
            processes::kill_all(processes::MARK, &boot.mark);
        }
        match fs::remove_file(self.store.boot_path(self.name)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Returns when the lock is free.
    fn kill_machine(&self) -> Result<()> {
        let lock = open_lock(&self.store.machine_lock(self.name))?;
        while is_held(&lock)? {
            if let Ok(Some(boot)) = self.boot() {
                match boot.pid.and_then(Pid::from_raw) {
                    Some(pid) => drop(kill_process(pid, Signal::KILL)),
                    // Its starter died, or has not come to writing it down.
                    None => processes::kill_all(processes::MACHINE_MARK, &boot.id),
                }
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn write_boot(&self, boot: &Boot) -> Result<()> {
        write_json(&self.store.boot_path(self.name), boot)
    }

    fn log(&self, path: &std::path::Path, line: &str) -> Result<()> {
        let mut file = OpenOptions::new().append(true).create(true).open(path)?;
        Ok(writeln!(file, "{} {line}", self.name)?)
    }
}

/// Whether someone else holds the lock of this file exclusively.
fn is_held(file: &File) -> Result<bool> {
    match file.try_lock_shared() {
        Ok(()) => {
            file.unlock()?;
            Ok(false)
        }
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error.into()),
    }
}

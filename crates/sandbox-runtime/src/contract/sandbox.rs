use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use sandbox_model::{
    ByteSize, ExecSpec, ExitStatus, NetworkPolicy, SandboxName, SandboxSpec, Status, WorkspaceMount,
};

use super::check::{check, check_eq, fail};
use super::{Failure, Harness, Outcome};
use crate::{Collected, ExecEvent, ExecInput, ExecSession, Result, Runtime, RuntimeError};

/// A name that no other case uses, in this process or another.
pub(super) fn unique_name() -> Outcome<SandboxName> {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    let name = format!("contract-{}-{number}", std::process::id());
    name.parse().map_err(|error| Failure(format!("{error}")))
}

/// A sandbox of one case, gone when the case ends.
pub(super) struct Sandbox<'h> {
    pub harness: &'h dyn Harness,
    pub spec: SandboxSpec,
    lent: bool,
}

impl<'h> Sandbox<'h> {
    /// The usual spec, of the harness's image, with nothing made yet.
    pub fn plan(harness: &'h dyn Harness) -> Outcome<Self> {
        let image = harness.image();
        let source = harness.workspace_dir()?.canonicalize()?;
        let owner = fs::metadata(&source)?;
        let spec = SandboxSpec {
            name: unique_name()?,
            image: image.reference.clone(),
            image_digest: image.digest.clone(),
            resources: harness.resources(),
            root_disk: ByteSize::gib(1),
            tmp: ByteSize::mib(64),
            home: harness.home_disk()?,
            workspace: WorkspaceMount {
                source,
                quota: ByteSize::mib(256),
                host_uid: owner.uid(),
                host_gid: owner.gid(),
                guest_uid: image.dev_uid,
                guest_gid: image.dev_gid,
            },
            env: BTreeMap::new(),
            network: NetworkPolicy::default(),
            ssh_agent: false,
            labels: BTreeMap::from([("contract".to_string(), "yes".to_string())]),
            mounts: Vec::new(),
            ports: Vec::new(),
            secrets: Vec::new(),
            idle_timeout: Duration::from_hours(1),
            sleep: false,
        };
        Ok(Self { harness, spec, lent: false })
    }

    pub fn created(harness: &'h dyn Harness) -> Outcome<Self> {
        let sandbox = Self::plan(harness)?;
        sandbox.create()?;
        Ok(sandbox)
    }

    pub fn started(harness: &'h dyn Harness) -> Outcome<Self> {
        let sandbox = Self::created(harness)?;
        sandbox.runtime().start(sandbox.name())?;
        Ok(sandbox)
    }

    /// One that runs: the harness's own with an empty workspace, where it lends one. Only for cases that leave
    /// it as they found it.
    pub fn borrowed(harness: &'h dyn Harness) -> Outcome<Self> {
        let Some(spec) = harness.lend() else { return Self::started(harness) };
        for entry in fs::read_dir(&spec.workspace.source)? {
            let path = entry?.path();
            if fs::symlink_metadata(&path)?.is_dir() {
                fs::remove_dir_all(path)?;
            } else {
                fs::remove_file(path)?;
            }
        }
        Ok(Self { harness, spec, lent: true })
    }

    pub fn create(&self) -> Outcome {
        let image = self.harness.image();
        let mut archive = File::open(&image.archive)?;
        self.runtime().load_image(&image.reference, &image.digest, &mut archive, &mut |_, _| {})?;
        Ok(self.runtime().create(&self.spec)?)
    }

    pub fn runtime(&self) -> &'h dyn Runtime {
        self.harness.runtime()
    }

    pub fn name(&self) -> &SandboxName {
        &self.spec.name
    }

    /// A path of the workspace on the host.
    pub fn host(&self, path: &str) -> PathBuf {
        self.spec.workspace.source.join(path)
    }

    pub fn restart(&self) -> Outcome {
        self.runtime().stop(self.name(), Duration::from_secs(10))?;
        Ok(self.runtime().start(self.name())?)
    }

    pub fn status(&self) -> Outcome<Status> {
        match self.runtime().inspect(self.name())? {
            Some(info) => Ok(info.status),
            None => fail!("{} is gone", self.name()),
        }
    }

    pub fn expect_status(&self, wanted: &Status, when: &str) -> Outcome {
        check_eq!(self.status()?, *wanted, "status {when}");
        Ok(())
    }

    /// Runs a command, all its output gathered.
    pub fn exec(&self, spec: &ExecSpec) -> Outcome<Collected> {
        self.try_exec(spec)?.map_err(Into::into)
    }

    /// Like [`Sandbox::exec`], with the runtime's own error inside; the outer one is a hang.
    pub fn try_exec(&self, spec: &ExecSpec) -> Outcome<Result<Collected>> {
        let mut session = match self.runtime().exec(self.name(), spec) {
            Ok(session) => Live::new(session, self.harness.patience()),
            Err(error) => return Ok(Err(error)),
        };
        if let Err(error) = session.input.close() {
            return Ok(Err(error));
        }
        session.collect()
    }

    /// A shell script as `dev` in the workspace.
    pub fn try_sh(&self, script: &str) -> Outcome<Collected> {
        self.exec(&ExecSpec::new(["sh", "-c", script]))
    }

    /// A shell script that must succeed; its output without the last newline.
    pub fn sh(&self, script: &str) -> Outcome<String> {
        let done = self.try_sh(script)?;
        check!(
            done.status == ExitStatus::SUCCESS,
            "`{script}` ended with {:?}: {}{}",
            done.status,
            text(&done.stdout),
            text(&done.stderr)
        );
        Ok(text(&done.stdout).trim_end_matches('\n').to_string())
    }

    /// A command under way.
    pub fn live(&self, spec: &ExecSpec) -> Outcome<Live> {
        Ok(Live::new(self.runtime().exec(self.name(), spec)?, self.harness.patience()))
    }

    pub fn wait_until(&self, what: &str, mut done: impl FnMut() -> Outcome<bool>) -> Outcome {
        let deadline = Instant::now() + self.harness.patience();
        while !done()? {
            check!(Instant::now() < deadline, "waited in vain until {what}");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Sandbox<'_> {
    fn drop(&mut self) {
        if self.lent {
            return;
        }
        let _ = self.runtime().kill(self.name());
        let _ = self.runtime().remove(self.name());
    }
}

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(super) fn read_text(path: &Path) -> Outcome<String> {
    fs::read_to_string(path).map_err(|error| Failure(format!("{}: {error}", path.display())))
}

/// A command whose output arrives on a channel, so that a hang fails a case instead of hanging it.
pub(super) struct Live {
    pub input: Box<dyn ExecInput>,
    events: Receiver<Result<ExecEvent>>,
    patience: Duration,
    /// Everything from stdout (or the terminal) so far.
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

impl Live {
    pub fn new(session: ExecSession, patience: Duration) -> Self {
        let (sender, events) = channel();
        let mut output = session.output;
        std::thread::spawn(move || {
            loop {
                let event = output.next();
                let last = !matches!(event, Ok(ExecEvent::Stdout(_) | ExecEvent::Stderr(_)));
                if sender.send(event).is_err() || last {
                    return;
                }
            }
        });
        Self { input: session.input, events, patience, stdout: Vec::new(), stderr: Vec::new() }
    }

    /// Waits for one event; the end, where it is that.
    fn event(&mut self) -> Outcome<Option<Result<ExitStatus>>> {
        match self.events.recv_timeout(self.patience) {
            Ok(Ok(ExecEvent::Stdout(bytes))) => self.stdout.extend(bytes),
            Ok(Ok(ExecEvent::Stderr(bytes))) => self.stderr.extend(bytes),
            Ok(Ok(ExecEvent::Exited(status))) => return Ok(Some(Ok(status))),
            Ok(Err(error)) => return Ok(Some(Err(error))),
            Err(RecvTimeoutError::Timeout) => fail!("nothing came for {:?} ({})", self.patience, self.seen()),
            Err(RecvTimeoutError::Disconnected) => fail!("the session was over already ({})", self.seen()),
        }
        Ok(None)
    }

    fn seen(&self) -> String {
        let end = &self.stdout[self.stdout.len().saturating_sub(300)..];
        format!("so far: {:?} {:?}", text(end), text(&self.stderr))
    }

    /// Waits until the output contains `wanted`.
    pub fn expect(&mut self, wanted: &str) -> Outcome {
        while !text(&self.stdout).contains(wanted) {
            if let Some(end) = self.event()? {
                fail!("it ended ({end:?}) before it said {wanted:?} ({})", self.seen());
            }
        }
        Ok(())
    }

    /// Waits for the end.
    pub fn end(&mut self) -> Outcome<Result<ExitStatus>> {
        loop {
            if let Some(end) = self.event()? {
                return Ok(end);
            }
        }
    }

    pub fn collect(mut self) -> Outcome<Result<Collected>> {
        let end = self.end()?;
        Ok(end.map(|status| Collected { stdout: self.stdout, stderr: self.stderr, status }))
    }
}

/// Whether an error is the sandbox's absence, as far as the contract tells.
pub(super) const fn is_lost(error: &RuntimeError) -> bool {
    matches!(error, RuntimeError::Lost(_))
}

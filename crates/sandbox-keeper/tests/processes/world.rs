use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Stdio};
use std::time::{Duration, Instant};

use sandbox_keeper::{
    ClientInfo, KeeperConfig, KeeperStatus, Lease, LeaseOutcome, Ready, Session, SessionKind, Timing, lease,
    lease_or_start, status,
};
use sandbox_model::{
    ByteSize, HomeDisk, NetworkPolicy, Resources, SandboxName, SandboxSpec, Status, WorkspaceMount,
};
use sandbox_runtime::Runtime;
use sandbox_runtime::contract::{ArchiveFile, ImageArchive};
use sandbox_runtime::fake::{FakeRuntime, Faults};
use sandbox_state::{KeeperFiles, is_locked, read_holder};

use crate::role::{self, KeeperOrder};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Long beside everything that must happen, short beside a test that hangs.
const PATIENCE: Duration = Duration::from_secs(30);

/// One running sandbox in a directory of its own, without a keeper yet.
pub(crate) struct World {
    _dir: tempfile::TempDir,
    pub runtime: FakeRuntime,
    pub order: KeeperOrder,
    order_path: PathBuf,
}

pub(crate) fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn me() -> ClientInfo {
    ClientInfo {
        pid: std::process::id(),
        verb: "test".into(),
        version: "0".into(),
        keep_secs: None,
        ssh_agent: None,
    }
}

impl World {
    pub fn new(change: impl FnOnce(&mut KeeperConfig)) -> Result<Self, Error> {
        let dir = tempfile::tempdir()?;
        let runtime = FakeRuntime::open(dir.path().join("fake"))?;
        let files = ArchiveFile { path: "etc/name".into(), content: b"x".into(), mode: 0o644, uid: 0 };
        let (digest, archive) =
            ImageArchive { layers: vec![vec![files]], ..ImageArchive::default() }.build()?;
        let image = "test/keeper:latest".parse()?;
        runtime.load_image(&image, &digest, &mut archive.as_slice(), &mut |_, _| {})?;
        let (workspace, home) = (dir.path().join("workspace"), dir.path().join("home"));
        std::fs::create_dir(&workspace)?;
        std::fs::create_dir(&home)?;
        let name: SandboxName = "kept".parse()?;
        runtime.create(&SandboxSpec {
            name: name.clone(),
            image,
            image_digest: digest,
            resources: Resources { cpus: 1, memory: ByteSize::mib(64) },
            root_disk: ByteSize::gib(1),
            tmp: ByteSize::mib(64),
            home: HomeDisk { path: home },
            workspace: WorkspaceMount {
                source: workspace,
                quota: ByteSize::mib(64),
                host_uid: 0,
                host_gid: 0,
                guest_uid: 0,
                guest_gid: 0,
            },
            env: BTreeMap::new(),
            network: NetworkPolicy::default(),
            ssh_agent: false,
            labels: BTreeMap::new(),
            mounts: Vec::new(),
            ports: Vec::new(),
            secrets: Vec::new(),
            idle_timeout: Duration::from_hours(1),
            sleep: false,
        })?;
        runtime.start(&name)?;
        let mut keeper = KeeperConfig {
            sandbox: name,
            dir: dir.path().join("state"),
            sleep: false,
            auto_stop_timeout: millis(200),
            auto_stop_on_active_sessions: false,
            auto_stop_max_session_retries: 3,
            timing: Timing {
                ask_every: millis(20),
                check_every: millis(50),
                agent_patience: millis(10_000),
                first_lease: millis(5000),
                stop_grace: millis(1000),
                request_patience: millis(300),
            },
        };
        change(&mut keeper);
        let order =
            KeeperOrder { keeper, runtime: dir.path().join("fake"), agent: dir.path().join("agent.json") };
        let order_path = dir.path().join("order.json");
        std::fs::write(&order_path, serde_json::to_vec(&order)?)?;
        Ok(Self { _dir: dir, runtime, order, order_path })
    }

    pub fn name(&self) -> &SandboxName {
        &self.order.keeper.sandbox
    }

    pub fn files(&self) -> KeeperFiles {
        self.order.keeper.files()
    }

    pub fn start_keeper(&self) -> Result<(), Error> {
        match role::start_keeper(&self.order)? {
            Ready::Serving => Ok(()),
            other => Err(format!("a new keeper says {other:?}").into()),
        }
    }

    pub fn client(&self) -> Result<Client, Error> {
        let mut child =
            role::client(&self.order_path)?.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let stdin = child.stdin.take();
        Ok(Client { child, stdin })
    }

    pub fn lease(&self) -> Result<Lease, Error> {
        match lease(&self.files(), me())? {
            LeaseOutcome::Leased(lease) => Ok(lease),
            other => Err(format!("{other:?}").into()),
        }
    }

    pub fn lease_or_start(&self) -> Result<Lease, Error> {
        match lease_or_start(&self.files(), &me(), &mut || role::start_keeper(&self.order))? {
            LeaseOutcome::Leased(lease) => Ok(lease),
            other => Err(format!("{other:?}").into()),
        }
    }

    pub fn keeper_status(&self) -> Result<KeeperStatus, Error> {
        status(&self.files())?.ok_or_else(|| "no keeper answers".into())
    }

    /// The process id of the keeper, from its lock.
    pub fn keeper_pid(&self) -> Result<u32, Error> {
        assert!(is_locked(&self.files().lock)?, "no keeper lives");
        let holder = read_holder(&self.files().lock).to_string();
        let pid = holder.strip_prefix("process ").and_then(|rest| rest.split(' ').next());
        Ok(pid.ok_or("no process in the lock")?.parse()?)
    }

    pub fn status(&self) -> Result<Status, Error> {
        Ok(self.runtime.inspect(self.name())?.ok_or("the sandbox is gone")?.status)
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.files().log).unwrap_or_default()
    }

    pub fn agent_says(&self, kinds: &[SessionKind]) -> Result<(), Error> {
        let sessions: Vec<Session> =
            kinds.iter().map(|kind| Session { kind: *kind, directory: None }).collect();
        self.agent_says_text(&serde_json::to_string(&sessions)?)
    }

    /// In one step, so that no half answer is read.
    pub fn agent_says_text(&self, text: &str) -> Result<(), Error> {
        let new = self.order.agent.with_extension("new");
        std::fs::write(&new, text)?;
        Ok(std::fs::rename(new, &self.order.agent)?)
    }

    pub fn faults(&self, faults: &Faults) -> Result<(), Error> {
        Ok(self.runtime.set_faults(faults)?)
    }

    pub fn wait_until(&self, what: &str, mut done: impl FnMut() -> Result<bool, Error>) -> Result<(), Error> {
        let deadline = Instant::now() + PATIENCE;
        while !done()? {
            if Instant::now() > deadline {
                return Err(format!("waited in vain until {what}\n{}", self.log()).into());
            }
            std::thread::sleep(millis(3));
        }
        Ok(())
    }

    pub fn wait_until_over(&self) -> Result<(), Error> {
        self.wait_until("the sandbox is at rest", || Ok(self.status()?.is_at_rest()))?;
        self.wait_until("the keeper is gone", || Ok(!is_locked(&self.files().lock)?))
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // The keeper sees it and ends.
        let _ = self.runtime.set_faults(&Faults::default());
        let _ = self.runtime.kill(self.name());
        let _ = self.wait_until("the keeper is gone", || Ok(!is_locked(&self.files().lock)?));
    }
}

/// A client process.
pub(crate) struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
}

impl Client {
    /// Its one line: `leased`, `draining`, `no keeper`.
    pub fn says(&mut self) -> Result<String, Error> {
        let stdout = self.child.stdout.as_mut().ok_or("no stdout")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        Ok(line.trim().to_string())
    }

    pub fn leave(&mut self) -> Result<(), Error> {
        self.stdin = None;
        if self.child.wait()?.success() { Ok(()) } else { Err("a client failed".into()) }
    }

    /// `kill -9`.
    pub fn kill(&mut self) -> Result<(), Error> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

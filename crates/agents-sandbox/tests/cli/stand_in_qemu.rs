//! The real machine process over a stand-in for QEMU, which does what its wishes say.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sandbox_model::{ByteSize, HomeDisk, NetworkPolicy, Resources, SandboxSpec, WorkspaceMount};
use sandbox_runtime_qemu::machine::{Accel, MachineConfig, StartReport};
use sandbox_wire::{MachineReply, MachineRequest};

const PATIENCE: Duration = Duration::from_mins(1);

/// One sandbox's folder, and whatever process works in it.
pub struct Machine {
    root: tempfile::TempDir,
    pub accels: Vec<Accel>,
    pub boot_deadline_secs: u64,
    /// The machine process that was started last.
    process: Option<Child>,
}

impl Machine {
    pub fn new() -> Self {
        let machine = Self {
            root: tempfile::tempdir().unwrap(),
            accels: vec![Accel::Tcg],
            boot_deadline_secs: 20,
            process: None,
        };
        for dir in ["sandbox", "checkout"] {
            fs::create_dir(machine.path(dir)).unwrap();
        }
        for file in ["sandbox/root.ext4", "home.ext4", "kernel", "initrd", "rootfs.erofs"] {
            fs::write(machine.path(file), file).unwrap();
        }
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(name)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path("sandbox").join(name)
    }

    fn config(&self) -> MachineConfig {
        let source = self.path("checkout");
        let owner = fs::metadata(&source).unwrap();
        let qemu = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fake-qemu/qemu");
        let spec = SandboxSpec {
            name: "stand-in-4chyvv5c1qh507-pi".parse().unwrap(),
            image: "stand-in/image:1".parse().unwrap(),
            image_digest: "ab".repeat(32).parse().unwrap(),
            resources: Resources { cpus: 1, memory: ByteSize::mib(16) },
            root_disk: ByteSize::gib(1),
            tmp: ByteSize::mib(16),
            home: HomeDisk { path: self.path("home.ext4") },
            workspace: WorkspaceMount {
                source,
                quota: ByteSize::mib(16),
                host_uid: owner.uid(),
                host_gid: owner.gid(),
                guest_uid: 1000,
                guest_gid: 1000,
            },
            env: BTreeMap::new(),
            network: NetworkPolicy::default(),
            mounts: Vec::new(),
            ports: Vec::new(),
            secrets: Vec::new(),
            ssh_agent: false,
            labels: BTreeMap::new(),
            idle_timeout: Duration::from_hours(1),
            sleep: true,
        };
        MachineConfig {
            spec,
            program: env!("CARGO_BIN_EXE_agents-sandbox").into(),
            qemu: qemu.canonicalize().unwrap(),
            kernel: self.path("kernel"),
            initrd: self.path("initrd"),
            rootfs: self.path("rootfs.erofs"),
            image_env: Vec::new(),
            accels: self.accels.clone(),
            no_sleep: None,
            boot_deadline_secs: self.boot_deadline_secs,
            secrets: None,
            proxies: None,
        }
    }

    /// Starts it with the stand-in's `wishes`; `None` where it died before it said anything.
    pub fn start(&mut self, wishes: &str) -> Option<StartReport> {
        self.start_to_die(wishes, "")
    }

    /// [`Machine::start`] of one that dies at the step that is named.
    pub fn start_to_die(&mut self, wishes: &str, step: &str) -> Option<StartReport> {
        let log = fs::File::options().create(true).append(true).open(self.file("machine.log")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_agents-sandbox"));
        command.args(["internal", "machine"]).arg(self.path("sandbox")).current_dir(self.path("sandbox"));
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("STAND_IN_QEMU", wishes).env("STAND_IN_QEMU_STARTS", self.path("starts"));
        if !step.is_empty() {
            command.env("AGENTS_SANDBOX_KILL_AT", step);
        }
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        serde_json::to_writer(process.stdin.take().unwrap(), &self.config()).unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        self.process = Some(process);
        serde_json::from_str(&line).ok()
    }

    /// What the stand-in was started as, in order, since this was asked for the last time.
    pub fn starts(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path("starts")).unwrap_or_default();
        let _ = fs::remove_file(self.path("starts"));
        text.lines().map(Into::into).collect()
    }

    /// Orders the end, asleep or off. `None` where the machine died meanwhile.
    pub fn end(&mut self, sleep: bool) -> Option<MachineReply> {
        let mut socket = UnixStream::connect(self.file("machine.sock")).ok()?;
        let request = MachineRequest::Stop { grace_millis: 5_000, boot_id: None, sleep };
        sandbox_wire::write_json(&mut socket, &request).ok()?;
        let reply = sandbox_wire::read_json(&mut socket).ok();
        self.process.take().unwrap().wait().unwrap();
        reply
    }

    /// Falls asleep, and has its memory on the disk.
    pub fn sleeps(&mut self) {
        let reply = self.end(true);
        assert!(
            matches!(reply, Some(MachineReply::Stopped { asleep: true, .. })),
            "{reply:?}: {}",
            self.log()
        );
        self.eventually("its memory is on the disk", |machine| {
            fs::read_to_string(machine.file("memory.json")).unwrap().contains("\"on-disk\"")
        });
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.file("machine.log")).unwrap_or_default()
    }

    /// The last word of the machine, once it is gone.
    pub fn word(&mut self) -> String {
        if let Some(mut process) = self.process.take() {
            process.wait().unwrap();
        }
        fs::read_to_string(self.file("machine.lock")).unwrap().trim().into()
    }

    /// Nothing that was started for it is left.
    #[track_caller]
    pub fn leaves_no_process(&self) {
        self.eventually("no process is left", |machine| machine.processes().is_empty());
    }

    #[track_caller]
    pub fn eventually(&self, what: &str, is: impl Fn(&Self) -> bool) {
        let begun = Instant::now();
        while !is(self) {
            assert!(begun.elapsed() < PATIENCE, "{what}: {:?} {}", self.processes(), self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The command lines of those who work in its folder, or were told of it.
    fn processes(&self) -> Vec<String> {
        let dir = self.path("sandbox");
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            let works_there = fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd == dir);
            if !line.is_empty() && (works_there || line.contains(&*dir.to_string_lossy())) {
                found.push(line);
            }
        }
        found
    }
}

impl Drop for Machine {
    /// Everything else dies with the machine process; whoever writes its memory ends when it is done.
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use sandbox_model::{
    ByteSize, HomeDisk, NetworkPolicy, NetworkProfile, Resources, SandboxName, SandboxSpec, Status,
    WorkspaceMount,
};
use sandbox_runtime::{Runtime, RuntimeError};
use sandbox_runtime_microsandbox::{MsbOptions, MsbRuntime, Patience};
use sandbox_state::{Environment, Layout, is_locked, read_holder};

/// Every word of `msb` that the driver uses.
pub const VERBS: [&str; 11] =
    ["create", "start", "stop", "exec", "list", "load", "image", "remove", "modify", "touch", "inspect"];

/// What its calls may take in tests where some hang. A stand-in that does not hang is done in a tenth of it.
pub const PATIENCE: Duration = Duration::from_secs(3);

/// Set where this program is the link process that a driver of its tests has started.
pub const ROLE: &str = "LINK_PROCESS_OF_A_TEST";

pub struct Fixture {
    pub runtime: MsbRuntime,
    /// Its home.
    pub msb: PathBuf,
    pub dir: tempfile::TempDir,
    /// What the user was told.
    pub told: Arc<Mutex<Vec<String>>>,
}

impl Fixture {
    /// Its calls may take what they may take.
    pub fn new() -> Self {
        Self::with(Patience::default())
    }

    /// Its calls may take [`PATIENCE`].
    pub fn impatient() -> Self {
        Self::with(Patience { ask: PATIENCE, work: PATIENCE, load: PATIENCE })
    }

    /// Another program on the same home, of a version that brings `guest_program`.
    pub fn another(&self, guest_program: &'static [u8]) -> MsbRuntime {
        runtime(self.dir.path(), guest_program, Patience::default(), &self.told)
    }

    /// Its sandboxes have machines, guests and link processes.
    pub fn linked() -> Self {
        Self::linked_with(Patience::default())
    }

    pub fn linked_with(patience: Patience) -> Self {
        let mut fixture = Self::new();
        fixture.machines();
        let (guest, program) = (fixture.msb.join("guest"), fixture.dir.path().join("program"));
        let this = std::env::current_exe().unwrap();
        let role = "link_process::it_says_what_it_does_not_understand";
        let words = format!("#!/bin/sh\n{ROLE}=1 exec '{}' --exact {role}\n", this.display());
        let content = [sandbox_runtime_qemu::guest_program(), words.as_bytes()];
        for (path, content) in [guest, program].iter().zip(content) {
            fs::write(path, content).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        fixture.runtime = runtime(fixture.dir.path(), b"none", patience, &fixture.told);
        fixture
    }

    /// Its sandboxes have machines, and where they reach something a stand-in for what serves their network.
    pub fn served() -> Self {
        let mut fixture = Self::new();
        fixture.machines();
        let program = fixture.dir.path().join("program");
        let this = std::env::current_exe().unwrap();
        let words = include_str!("outlet.sh").replace("THIS", this.to_str().unwrap());
        fs::write(&program, words).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        fixture.runtime = runtime(fixture.dir.path(), b"none", Patience::default(), &fixture.told);
        fixture
    }

    /// A file of ours of the sandbox.
    pub fn file(&self, file: &str) -> PathBuf {
        self.msb.join("records/sandboxes").join(name()).join(file)
    }

    /// The number of the link process, if there is one.
    pub fn link_process(&self) -> Option<i32> {
        let lock = self.file("link.lock");
        if !is_locked(&lock).unwrap_or_default() {
            return None;
        }
        read_holder(&lock).to_string().split(' ').nth(1)?.parse().ok()
    }

    /// Processes whose program is below its home, by a word of their command line.
    pub fn processes(&self, word: &str) -> Vec<i32> {
        let all = fs::read_dir("/proc").unwrap().flatten();
        let numbers = all.filter_map(|process| process.file_name().to_str()?.parse::<i32>().ok());
        let is_ours = |number: &i32| {
            let process = Path::new("/proc").join(number.to_string());
            let line = fs::read(process.join("cmdline")).unwrap_or_default();
            fs::read_link(process.join("exe")).is_ok_and(|program| program.starts_with(&self.msb))
                && line.split(|byte| *byte == 0).any(|part| part == word.as_bytes())
        };
        numbers.filter(is_ours).collect()
    }

    pub fn with(patience: Patience) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (msb, script) = (layout(dir.path()).msb(), dir.path().join("script"));
        fs::create_dir_all(&msb).unwrap();
        fs::set_permissions(&msb, fs::Permissions::from_mode(0o700)).unwrap();
        fs::write(&script, include_str!("msb.sh")).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(msb.join("image.json"), include_str!("../fixtures/image-inspect.json")).unwrap();
        fs::create_dir(dir.path().join("workspace")).unwrap();
        fs::write(dir.path().join("home.ext4"), "").unwrap();
        let told = Arc::default();
        Self { runtime: runtime(dir.path(), b"none", patience, &told), msb, dir, told }
    }

    pub fn fail(&self, verb: &str, text: &str) {
        fs::write(self.msb.join(format!("fail-{verb}")), text).unwrap();
    }

    pub fn fail_times(&self, verb: &str, times: usize, text: &str) {
        fs::write(self.msb.join(format!("times-{verb}")), "x\n".repeat(times)).unwrap();
        self.fail(verb, text);
    }

    pub fn calls(&self, verb: &str) -> usize {
        let calls = fs::read_to_string(self.msb.join("calls")).unwrap();
        calls.lines().filter(|call| *call == verb).count()
    }

    /// What `msb` lists.
    pub fn listed(&self, status: &str) {
        let listed = format!(r#"[{{"name": "{}", "status": "{status}"}}]"#, name());
        fs::write(self.msb.join("list.json"), listed).unwrap();
    }

    pub fn mend(&self, verb: &str) {
        fs::remove_file(self.msb.join(format!("fail-{verb}"))).unwrap();
    }

    /// Until the next change of it, calls of these verbs hang, and no others.
    pub fn hang(&self, verbs: &[&str]) {
        self.mark("hang", verbs);
    }

    /// Until the next change of it, calls of these verbs are killed, and no others.
    pub fn kill(&self, verbs: &[&str]) {
        self.mark("die", verbs);
    }

    fn mark(&self, how: &str, verbs: &[&str]) {
        for verb in VERBS {
            let file = self.msb.join(format!("{how}-{verb}"));
            if verbs.contains(&verb) {
                fs::write(file, "").unwrap();
            } else {
                let _ = fs::remove_file(file);
            }
        }
    }

    /// How many calls have hung; none of them, and nothing that they started, is there any more.
    pub fn hung(&self) -> usize {
        let path = self.msb.join("alive");
        let held = fs::read_to_string(&path).unwrap_or_default().lines().count();
        if held > 0 {
            let (file, begin) = (fs::File::open(&path).unwrap(), Instant::now());
            while file.try_lock().is_err() {
                assert!(begin.elapsed() < Duration::from_secs(20), "something of a call lives on");
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        held
    }

    /// From now on a create or a start begins a machine, which a stop ends.
    pub fn machines(&self) {
        fs::write(self.msb.join("machines"), "").unwrap();
    }

    pub fn load(&self) -> Result<(), RuntimeError> {
        let spec = self.spec();
        let mut archive: &[u8] = b"an archive";
        self.runtime.load_image(&spec.image, &spec.image_digest, &mut archive, &mut |_, _| {}).map(drop)
    }

    pub fn spec(&self) -> SandboxSpec {
        SandboxSpec {
            name: name(),
            image: "r/small:1".parse().unwrap(),
            image_digest: "ab".repeat(32).parse().unwrap(),
            resources: Resources { cpus: 1, memory: ByteSize::mib(256) },
            root_disk: ByteSize::mib(64),
            tmp: ByteSize::mib(16),
            home: HomeDisk { path: self.dir.path().join("home.ext4") },
            workspace: WorkspaceMount {
                source: self.dir.path().join("workspace"),
                quota: ByteSize::mib(16),
                host_uid: 0,
                host_gid: 0,
                guest_uid: 1000,
                guest_gid: 1000,
            },
            env: BTreeMap::new(),
            network: NetworkPolicy::default(),
            ssh_agent: false,
            labels: BTreeMap::new(),
            mounts: Vec::new(),
            ports: Vec::new(),
            secrets: Vec::new(),
            idle_timeout: Duration::from_mins(5),
            sleep: false,
        }
    }

    pub fn created(&self) {
        self.load().unwrap();
        self.runtime.create(&self.spec()).unwrap();
    }

    pub fn status(&self) -> (Status, Option<String>) {
        let info = self.runtime.inspect(&name()).unwrap().unwrap();
        (info.status, info.problem)
    }
}

fn layout(home: &Path) -> Layout {
    Layout::new(&Environment { home: Some(home.into()), ..Environment::default() }).unwrap()
}

fn runtime(
    home: &Path,
    guest_program: &'static [u8],
    patience: Patience,
    told: &Arc<Mutex<Vec<String>>>,
) -> MsbRuntime {
    let (script, told) = (home.join("script"), Arc::clone(told));
    let program = Some(home.join("program")).filter(|program| program.exists());
    let options = MsbOptions {
        msb: Box::new(move || Ok(script.clone())),
        program,
        guest_program,
        most_cpus: Some(1),
        network_rules: |policy| {
            Ok((policy.profile == NetworkProfile::Public).then(|| vec!["allow@public".to_string()]))
        },
        notice: Box::new(move |text| told.lock().unwrap().push(text.into())),
        patience,
    };
    MsbRuntime::new(&layout(home), options)
}

pub fn name() -> SandboxName {
    "shop-4chyvv5c1qh507-opencode".parse().unwrap()
}

impl Drop for Fixture {
    /// A machine of the stand-in ends with its file. What else a test has left would not end, or not at once.
    fn drop(&mut self) {
        let _ = fs::remove_file(self.msb.join("lives"));
        let left = || {
            let all = ["machine", "stdio", "daemon"].iter().flat_map(|word| self.processes(word));
            all.chain(self.link_process()).collect::<Vec<i32>>()
        };
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(10) {
            let left = left();
            if left.is_empty() {
                break;
            }
            left.into_iter().for_each(kill);
        }
    }
}

/// Ends a process that a test has started, if it has not ended.
pub fn kill(number: i32) {
    signal(number, Signal::KILL);
}

pub fn signal(number: i32, signal: Signal) {
    let _ = rustix::process::kill_process(Pid::from_raw(number).unwrap(), signal);
}

/// Waits for what comes by itself.
#[track_caller]
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_mins(1), "in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A process that looks like a machine of the private runtime, until it is dropped.
pub struct Machine(std::process::Child);

impl Machine {
    pub fn new(fixture: &Fixture) -> Self {
        let program = fixture.msb.join("msb");
        fs::copy("/bin/sh", &program).unwrap();
        fs::write(fixture.msb.join("machine"), "read end\n").unwrap();
        let mut machine = std::process::Command::new(program);
        machine.args(["machine", "--name", name().as_str()]).current_dir(&fixture.msb);
        Self(machine.stdin(std::process::Stdio::piped()).spawn().unwrap())
    }

    pub fn lives(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

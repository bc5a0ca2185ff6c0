use std::fs;
use std::io;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use sandbox_model::{HomeDisk, ImageRef, SandboxName, SandboxSpec};
use sandbox_runtime::Runtime;
use sandbox_runtime::RuntimeError;
use sandbox_runtime::contract::{Harness, TestImage, lendable};
use sandbox_runtime_microsandbox::{MsbOptions, MsbRuntime, Patience, RuntimeSource, ensure};
use sandbox_state::{Environment, Layout};

use crate::processes;

/// Who `dev` is in the lab's image.
const DEV: u32 = 1000;

pub struct LabHarness {
    runtime: MsbRuntime,
    /// The same sandboxes, but made with room for a second processor.
    growing: MsbRuntime,
    grows: AtomicBool,
    layout: Layout,
    image: TestImage,
    /// Workspaces and homes of this process.
    scratch: tempfile::TempDir,
    made: AtomicU32,
    lent: OnceLock<SandboxSpec>,
}

impl LabHarness {
    /// Boots the sandbox that cases share.
    pub fn lend_one(&self) -> Result<(), String> {
        let spec = lendable(self).map_err(|failure| failure.0)?;
        self.lent.set(spec).map_err(|_| "there is one already".to_string())
    }

    pub fn lent_name(&self) -> Option<String> {
        self.lent.get().map(|spec| spec.name.to_string())
    }

    /// Whether sandboxes are made with room for more processors: each costs a boot something.
    pub fn let_grow(&self, grows: bool) {
        self.grows.store(grows, Ordering::Relaxed);
    }

    /// Ends the sandbox that cases shared.
    pub fn take_back(&self) {
        if let Some(spec) = self.lent.get() {
            let _ = self.runtime.kill(&spec.name);
            let _ = self.runtime.remove(&spec.name);
        }
    }

    pub fn new(place: &Path) -> Result<Self, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let environment = Environment {
            home: Some(place.join("home")),
            xdg_data_home: Some(place.into()),
            ..Environment::default()
        };
        let layout = Layout::new(&environment).map_err(|error| text(&error))?;
        let id = fs::read_to_string(place.join("image-id")).map_err(|error| format!("image-id: {error}"))?;
        let reference: ImageRef = "agents-sandbox/contract:latest".parse().map_err(|error| text(&error))?;
        let image = TestImage {
            reference,
            digest: id.trim().parse().map_err(|error| text(&error))?,
            archive: place.join("image.tar"),
            dev_uid: DEV,
            dev_gid: DEV,
        };
        let runtime = driver(&layout, place, None);
        // The lab has one processor, and a machine may grow to two all the same.
        let growing = driver(&layout, place, Some(2));
        let scratch = tempfile::tempdir_in(place).map_err(|error| text(&error))?;
        let (made, lent) = (AtomicU32::new(0), OnceLock::new());
        let grows = AtomicBool::new(false);
        Ok(Self { runtime, growing, grows, layout, image, scratch, made, lent })
    }

    fn next(&self, kind: &str) -> PathBuf {
        self.scratch.path().join(format!("{kind}-{}", self.made.fetch_add(1, Ordering::Relaxed)))
    }
}

fn driver(layout: &Layout, place: &Path, most_cpus: Option<u32>) -> MsbRuntime {
    let (runtime_layout, files) = (layout.clone(), place.join("runtime"));
    let options = MsbOptions {
        msb: Box::new(move || {
            // Verified like any other, and nothing is fetched.
            let source = RuntimeSource { path: Some(files.clone()), pip: false, ..RuntimeSource::default() };
            let installed = ensure(&runtime_layout, &source, &mut |_| {});
            installed.map(|installed| installed.msb).map_err(|error| RuntimeError::other(error.to_string()))
        }),
        program: std::env::current_exe().ok(),
        guest_program: sandbox_runtime_qemu::guest_program(),
        most_cpus,
        network_rules: |_| Ok(None),
        notice: Box::new(|_| {}),
        patience: Patience::default(),
    };
    MsbRuntime::new(layout, options)
}

impl Harness for LabHarness {
    fn runtime(&self) -> &dyn Runtime {
        if self.grows.load(Ordering::Relaxed) { &self.growing } else { &self.runtime }
    }

    fn image(&self) -> &TestImage {
        &self.image
    }

    fn workspace_dir(&self) -> io::Result<PathBuf> {
        let dir = self.next("workspace");
        fs::create_dir(&dir)?;
        Ok(dir)
    }

    fn home_disk(&self) -> io::Result<HomeDisk> {
        let path = self.next("home");
        let template = self.next("home-content");
        fs::create_dir(&template)?;
        if rustix::process::geteuid().is_root() {
            chown(&template, Some(DEV), Some(DEV))?;
        }
        fs::File::create(&path)?.set_len(1 << 30)?;
        let output = Command::new("/usr/sbin/mke2fs")
            .args(["-q", "-F", "-t", "ext4", "-E"])
            .arg(format!("root_owner={DEV}:{DEV},lazy_itable_init=1,lazy_journal_init=1"))
            .arg("-d")
            .arg(&template)
            .arg(&path)
            .output()?;
        if output.status.success() {
            return Ok(HomeDisk { path });
        }
        Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()))
    }

    fn pull_plug(&self, name: &SandboxName) -> io::Result<()> {
        if processes::kill_machine(name.as_str()) {
            return Ok(());
        }
        Err(io::Error::other(format!("no machine process of {name}")))
    }

    fn break_record(&self, name: &SandboxName) -> io::Result<()> {
        let record = self.layout.msb().join("records/sandboxes").join(name).join("sandbox.json");
        fs::write(record, "{ \"version\": ")
    }

    fn lend(&self) -> Option<SandboxSpec> {
        self.lent.get().cloned()
    }

    fn news_delay(&self) -> Duration {
        Duration::from_secs(8)
    }

    /// A hundred megabytes take minutes here; a third of this is still more than pipes, sockets and windows on
    /// the way hold together.
    fn bulk(&self) -> usize {
        6_000_000
    }

    /// Everything in the lab is emulated twice.
    fn patience(&self) -> Duration {
        Duration::from_mins(4)
    }
}

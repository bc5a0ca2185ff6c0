//! The contract's cases on QEMU.

use std::fs;
use std::io;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use sandbox_model::{HomeDisk, ImageRef, SandboxName};
use sandbox_runtime::contract::{Harness, TestImage, all_cases, cases};
use sandbox_runtime::{Runtime, RuntimeError};
use sandbox_runtime_qemu::{AccelChoice, QemuOptions, QemuRuntime, wrapped_kernel};
use sandbox_state::Layout;

use crate::{image, place};

pub fn names() -> Vec<&'static str> {
    // The QEMU driver changes nothing of a running machine; every other power it has.
    let lacking = sandbox_runtime::contract::Power::LiveResources;
    all_cases().into_iter().filter(|case| case.needs != Some(lacking)).map(|case| case.name).collect()
}

/// Runs one case in a folder of its own, and leaves nothing.
pub fn run(name: &str) -> Result<(), String> {
    let harness = QemuHarness::new()?;
    let case = cases(&harness).into_iter().find(|case| case.name == name);
    let case = case.ok_or_else(|| format!("the driver says it lacks what `{name}` needs"))?;
    (case.run)(&harness).map_err(|failure| failure.0)
}

pub struct QemuHarness {
    runtime: QemuRuntime,
    layout: Layout,
    image: TestImage,
    /// Workspaces and homes of this process.
    scratch: tempfile::TempDir,
    made: AtomicU32,
}

impl QemuHarness {
    pub fn new() -> Result<Self, String> {
        let layout = place::layout()?;
        let (archive, digest) = image::archive()?;
        let reference: ImageRef =
            "agents-sandbox/contract:latest".parse().map_err(|error| format!("{error}"))?;
        let image =
            TestImage { reference, digest, archive, dev_uid: image::DEV_UID, dev_gid: image::DEV_UID };
        let runtime = runtime(&layout);
        fs::create_dir_all(place::place()).map_err(|error| error.to_string())?;
        let scratch = tempfile::tempdir_in(place::place()).map_err(|error| error.to_string())?;
        Ok(Self { runtime, layout, image, scratch, made: AtomicU32::new(0) })
    }

    /// Where the driver keeps a sandbox.
    pub fn sandbox_dir(&self, name: &SandboxName) -> PathBuf {
        self.layout.qemu().sandbox(name)
    }

    fn next(&self, kind: &str) -> PathBuf {
        self.scratch.path().join(format!("{kind}-{}", self.made.fetch_add(1, Ordering::Relaxed)))
    }
}

/// The driver over the tests' own store.
pub fn runtime(layout: &Layout) -> QemuRuntime {
    let kernel_layout = layout.clone();
    let options = QemuOptions {
        program: place::program(),
        kernel: Box::new(move || kernel(&kernel_layout)),
        accel: AccelChoice::Auto,
        notice: Box::new(|_| {}),
    };
    QemuRuntime::new(layout, options)
}

/// The guest kernel out of the private runtime, as the program gets it.
fn kernel(layout: &Layout) -> Result<PathBuf, RuntimeError> {
    let other = |error: &dyn std::fmt::Display| RuntimeError::other(error.to_string());
    let installed = sandbox_runtime_microsandbox::ensure(
        layout,
        &sandbox_runtime_microsandbox::RuntimeSource::default(),
        &mut |_| {},
    )
    .map_err(|error| other(&error))?;
    wrapped_kernel(&installed.libkrunfw, &layout.qemu().boot_files()).map_err(|error| other(&error))
}

impl Harness for QemuHarness {
    fn runtime(&self) -> &dyn Runtime {
        &self.runtime
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
        let as_root = rustix::process::geteuid().is_root();
        if as_root {
            chown(&template, Some(image::DEV_UID), Some(image::DEV_UID))?;
        }
        fs::File::create(&path)?.set_len(1 << 30)?;
        let output = Command::new("/usr/sbin/mke2fs")
            .args(["-q", "-F", "-t", "ext4", "-E"])
            .arg(format!("root_owner={0}:{0},lazy_itable_init=1,lazy_journal_init=1", image::DEV_UID))
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
        let dir = self.layout.qemu().sandbox(name);
        let pid = machine_pid(&dir)?;
        let pid =
            rustix::process::Pid::from_raw(pid).ok_or_else(|| io::Error::other("no machine process"))?;
        Ok(rustix::process::kill_process(pid, rustix::process::Signal::KILL)?)
    }

    fn break_record(&self, name: &SandboxName) -> io::Result<()> {
        fs::write(self.layout.qemu().sandbox(name).join("sandbox.json"), "{ \"version\": ")
    }

    fn patience(&self) -> Duration {
        Duration::from_mins(2)
    }
}

/// The process that runs `internal machine DIR`.
pub fn machine_pid(dir: &Path) -> io::Result<i32> {
    let wanted = [b"\0internal\0machine\0", dir.as_os_str().as_encoded_bytes(), b"\0"].concat();
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if line.windows(wanted.len()).any(|part| part == wanted) {
            return Ok(pid);
        }
    }
    Err(io::Error::other(format!("no machine process of {}", dir.display())))
}

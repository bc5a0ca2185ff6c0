//! A disk that is full while an image is loaded or a root disk is made: told as that, with nothing left that is in
//! the way of the next try. The disk is a small one of the test's own.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use sandbox_model::{
    ByteSize, Digest, HomeDisk, ImageRef, NetworkPolicy, Resources, SandboxSpec, WorkspaceMount,
};
use sandbox_runtime::contract::{ArchiveFile, ImageArchive};
use sandbox_runtime::{Runtime, RuntimeError};
use sandbox_runtime_qemu::{AccelChoice, QemuOptions, QemuRuntime};
use sandbox_state::{Environment, Layout};

/// The folder of the small disk, set in the process that has one.
const SMALL: &str = "SANDBOX_RUNTIME_QEMU_TEST_SMALL";
const DISK: u64 = 24 << 20;

/// Runs the test that calls it again with a small disk of its own; in that process, the disk's folder.
fn small_disk() -> Option<PathBuf> {
    if let Some(dir) = std::env::var_os(SMALL) {
        return Some(dir.into());
    }
    let dir = tempfile::tempdir().unwrap();
    let name = std::thread::current().name().unwrap().to_string();
    let script = format!("mount -t tmpfs -o size={DISK},mode=0700 tmpfs \"${SMALL}\" && exec \"$@\"");
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-current-user", "--keep-caps"]);
    }
    let output = command
        .args(["--mount", "sh", "-uc", &script, "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", &name, "--nocapture"])
        .env(SMALL, dir.path().canonicalize().unwrap())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    None
}

/// Takes what the disk has, but for `left` bytes. Dropped, it gives them back.
struct Filled(PathBuf);

impl Filled {
    fn but_for(dir: &Path, left: u64) -> Self {
        let path = dir.join("fill");
        let mut file = fs::File::create(&path).unwrap();
        while file.write_all(&[7; 4096]).is_ok() {}
        let size = file.metadata().unwrap().len();
        file.set_len(size.saturating_sub(left)).unwrap();
        Self(path)
    }
}

impl Drop for Filled {
    fn drop(&mut self) {
        fs::remove_file(&self.0).unwrap();
    }
}

struct Place {
    dir: PathBuf,
    layout: Layout,
    runtime: QemuRuntime,
}

impl Place {
    fn new(dir: PathBuf) -> Self {
        let environment = Environment { home: Some(dir.clone()), ..Environment::default() };
        let layout = Layout::new(&environment).unwrap();
        let options = QemuOptions {
            program: "/nonexistent".into(),
            kernel: Box::new(|| Err(RuntimeError::other("nothing boots here"))),
            accel: AccelChoice::Auto,
            notice: Box::new(|_| {}),
        };
        let runtime = QemuRuntime::new(&layout, options);
        fs::create_dir(dir.join("checkout")).unwrap();
        fs::write(dir.join("home.ext4"), "").unwrap();
        Self { dir, layout, runtime }
    }

    fn load(&self, image: &(Digest, Vec<u8>)) -> Result<(), RuntimeError> {
        let mut archive = &image.1[..];
        self.runtime.load_image(&reference(), &image.0, &mut archive, &mut |_, _| {}).map(drop)
    }

    fn spec(&self, digest: &Digest) -> SandboxSpec {
        SandboxSpec {
            name: "small-4chyvv5c1qh507-pi".parse().unwrap(),
            image: reference(),
            image_digest: digest.clone(),
            resources: Resources { cpus: 1, memory: ByteSize::mib(256) },
            root_disk: ByteSize::gib(1),
            tmp: ByteSize::mib(16),
            home: HomeDisk { path: self.dir.join("home.ext4") },
            workspace: WorkspaceMount {
                source: self.dir.join("checkout"),
                quota: ByteSize::mib(16),
                host_uid: 0,
                host_gid: 0,
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
            idle_timeout: Duration::from_mins(1),
            sleep: false,
        }
    }
}

fn reference() -> ImageRef {
    "small/image:1".parse().unwrap()
}

/// An image with one file of so many bytes, none of which is like its neighbour.
fn image(size: usize) -> (Digest, Vec<u8>) {
    let content =
        (0..size as u64).map(|at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[0]).collect();
    let file = ArchiveFile { path: "large".into(), content, mode: 0o644, uid: 0 };
    ImageArchive { layers: vec![vec![file]], ..ImageArchive::default() }.build().unwrap()
}

#[track_caller]
fn is_told(outcome: Result<(), RuntimeError>) {
    match outcome {
        Err(RuntimeError::Io(error)) if error.kind() == ErrorKind::StorageFull => {
            assert!(error.to_string().contains("/sandbox/") || error.to_string().contains("agents-sandbox"));
        }
        Err(error) => panic!("{error:?}: {:?}", error.source()),
        Ok(()) => panic!("there was room"),
    }
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn an_image_that_does_not_fit_leaves_nothing_and_is_not_the_archives_fault() {
    let Some(dir) = small_disk() else { return };
    let place = Place::new(dir);
    let large = image(4 << 20);
    // No room for the archive, for the layer in it, or for the file system that is made of it.
    for left in [1 << 20, 6 << 20, 10 << 20] {
        let filled = Filled::but_for(&place.dir, left);
        is_told(place.load(&large));
        assert_eq!(names(&place.layout.qemu().images()), Vec::<String>::new(), "{left} bytes were left");
        assert!(place.runtime.list_images().unwrap().is_empty());
        drop(filled);
    }
    place.load(&large).unwrap();
    assert_eq!(place.runtime.list_images().unwrap().len(), 1);
}

#[test]
fn a_root_disk_that_does_not_fit_is_no_half_sandbox() {
    let Some(dir) = small_disk() else { return };
    let place = Place::new(dir);
    let small = image(1000);
    place.load(&small).unwrap();
    let spec = place.spec(&small.0);
    let filled = Filled::but_for(&place.dir, 256 << 10);
    is_told(place.runtime.create(&spec));
    let list = place.runtime.list().unwrap();
    assert!(list.sandboxes.is_empty() && list.broken.is_empty(), "{list:?}");
    // Also while it is full, it can be removed, and tried again in vain.
    place.runtime.remove(&spec.name).unwrap();
    is_told(place.runtime.create(&spec));
    drop(filled);
    place.runtime.create(&spec).unwrap();
    let sandboxes = place.layout.qemu().sandboxes();
    assert_eq!(names(&sandboxes), [spec.name.as_str()], "and nothing beside it");
}

//! The contract suite on the fake, and what is the fake's own: other processes, and death.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::LazyLock;

use libtest_mimic::{Arguments, Failed, Trial};
use sandbox_model::{HomeDisk, SandboxName};
use sandbox_runtime::Runtime;
use sandbox_runtime::contract::{ArchiveFile, Harness, ImageArchive, TestImage, cases};
use sandbox_runtime::fake::FakeRuntime;

struct FakeHarness {
    dir: tempfile::TempDir,
    runtime: FakeRuntime,
    image: TestImage,
}

impl FakeHarness {
    fn new() -> io::Result<Self> {
        let dir = tempfile::tempdir()?;
        let runtime = FakeRuntime::open(dir.path().join("fake")).map_err(io::Error::other)?;
        let image = ImageArchive {
            layers: vec![vec![ArchiveFile {
                path: "etc/os-release".into(),
                content: b"ID=fake\n".into(),
                mode: 0o644,
                uid: 0,
            }]],
            env: vec![("OF_IMAGE".into(), "of the image".into())],
            ..ImageArchive::default()
        };
        let (digest, bytes) = image.build()?;
        let archive = dir.path().join("image.tar");
        std::fs::write(&archive, bytes)?;
        let owner = std::fs::metadata(dir.path())?;
        let reference = "contract/fake:latest".parse().map_err(io::Error::other)?;
        let image = TestImage { reference, digest, archive, dev_uid: owner.uid(), dev_gid: owner.gid() };
        Ok(Self { dir, runtime, image })
    }

    fn fresh(&self, stem: &str) -> io::Result<PathBuf> {
        Ok(tempfile::Builder::new().prefix(stem).tempdir_in(self.dir.path())?.keep())
    }
}

impl Harness for FakeHarness {
    fn runtime(&self) -> &dyn Runtime {
        &self.runtime
    }

    fn image(&self) -> &TestImage {
        &self.image
    }

    fn workspace_dir(&self) -> io::Result<PathBuf> {
        self.fresh("workspace-")
    }

    fn home_disk(&self) -> io::Result<HomeDisk> {
        let path = self.fresh("home-")?.join("home.ext4");
        std::fs::write(&path, "a disk")?;
        Ok(HomeDisk { path })
    }

    fn pull_plug(&self, name: &SandboxName) -> io::Result<()> {
        let pid = self.runtime.machine_pid(name).map_err(io::Error::other)?;
        let pid = pid.ok_or_else(|| io::Error::other("no machine runs"))?;
        let status = Command::new("kill").args(["-9", &pid.to_string()]).status()?;
        if status.success() { Ok(()) } else { Err(io::Error::other("kill failed")) }
    }

    fn break_record(&self, name: &SandboxName) -> io::Result<()> {
        std::fs::write(self.runtime.record_path(name), "{ \"spec\": ")
    }
}

static HARNESS: LazyLock<FakeHarness> = LazyLock::new(|| FakeHarness::new().expect("a harness"));

mod own;

fn main() -> ExitCode {
    if let Some(code) = own::other_process() {
        return code;
    }
    let mut trials: Vec<Trial> = cases(&*HARNESS)
        .into_iter()
        .map(|case| Trial::test(case.name, move || (case.run)(&*HARNESS).map_err(Failed::from)))
        .collect();
    trials.extend(own::trials());
    let conclusion = libtest_mimic::run(&Arguments::from_args(), trials);
    // A static is never dropped: the folder goes by hand.
    let _ = std::fs::remove_dir_all(HARNESS.dir.path());
    conclusion.exit_code()
}

//! Where the driver keeps what `msb` does not know, beside what `msb` keeps for itself.
//!
//! ```text
//! msb/records/sandboxes/NAME/   sandbox.json, applied.json, life.json, machine.pid, sessions.json, root.img,
//!                               change.lock, starting.lock
//! msb/records/told.json         what the user was told
//! msb/records/references/       which digest a reference means
//! msb/records/contents/         what is known of an image's content
//! msb/records/{create,images}.lock
//! msb/records/guest/ID/         the guest program, shared read-only with every sandbox
//! msb/trial/                    the home of a first boot
//! msb/sandboxes/NAME/           msb's own: logs, the boot's id
//! msb/cache/layers/             msb's own: one EROFS file per layer
//! ```

use std::path::{Path, PathBuf};

use sandbox_model::{Digest, SandboxName};
use sandbox_state::MsbFiles;

#[derive(Debug, Clone)]
pub struct Files {
    pub home: MsbFiles,
}

impl Files {
    pub fn records(&self) -> PathBuf {
        self.home.dir.join("records")
    }

    pub fn config(&self) -> PathBuf {
        self.home.dir.join("config.json")
    }

    pub fn sandboxes(&self) -> PathBuf {
        self.records().join("sandboxes")
    }

    pub fn sandbox(&self, name: &SandboxName) -> SandboxPaths {
        SandboxPaths { dir: self.sandboxes().join(name), msb: self.home.dir.join("sandboxes").join(name) }
    }

    pub fn create_lock(&self) -> PathBuf {
        self.records().join("create.lock")
    }

    pub fn images_lock(&self) -> PathBuf {
        self.records().join("images.lock")
    }

    pub fn references(&self) -> PathBuf {
        self.records().join("references")
    }

    pub fn content(&self, digest: &Digest) -> PathBuf {
        self.records().join("contents").join(format!("{}.json", digest.hex()))
    }

    /// The home of a first boot, which goes with it.
    pub fn trial(home: &Path) -> PathBuf {
        home.join("trial")
    }

    /// What the user was told once.
    pub fn told(&self) -> PathBuf {
        self.records().join("told.json")
    }

    /// Shared with every sandbox, so that a newer program finds its own guest program in an old one.
    pub fn guest_programs(&self) -> PathBuf {
        self.records().join("guest")
    }

    /// `diff_id` is `sha256:…` of a layer's uncompressed tar.
    pub fn layer(&self, diff_id: &Digest) -> PathBuf {
        self.home.dir.join("cache/layers").join(format!("sha256_{}.erofs", diff_id.hex()))
    }
}

/// The files of one sandbox: ours, and those of `msb`.
#[derive(Debug, Clone)]
pub struct SandboxPaths {
    pub dir: PathBuf,
    pub msb: PathBuf,
}

impl SandboxPaths {
    pub fn at(dir: &Path) -> Self {
        Self { dir: dir.into(), msb: PathBuf::new() }
    }

    pub fn record(&self) -> PathBuf {
        self.dir.join("sandbox.json")
    }

    /// What `msb` was last told about this sandbox.
    pub fn applied(&self) -> PathBuf {
        self.dir.join("applied.json")
    }

    /// How the last start ended.
    pub fn life(&self) -> PathBuf {
        self.dir.join("life.json")
    }

    pub fn root_disk(&self) -> PathBuf {
        self.dir.join("root.img")
    }

    /// The process of the machine, while nobody ends it.
    pub fn machine(&self) -> PathBuf {
        self.dir.join("machine.pid")
    }

    /// Which version has the sessions of a boot.
    pub fn sessions(&self) -> PathBuf {
        self.dir.join("sessions.json")
    }

    /// Held exclusively while the sandbox changes, shared while a link to it is opened.
    pub fn change_lock(&self) -> PathBuf {
        self.dir.join("change.lock")
    }

    /// Held while a boot is under way.
    pub fn starting_lock(&self) -> PathBuf {
        self.dir.join("starting.lock")
    }

    pub fn console_log(&self) -> PathBuf {
        self.msb.join("logs/kernel.log")
    }

    pub fn machine_log(&self) -> PathBuf {
        self.msb.join("logs/runtime.log")
    }

    pub fn boot_id(&self) -> PathBuf {
        self.msb.join("runtime/runtime-boot-id")
    }
}

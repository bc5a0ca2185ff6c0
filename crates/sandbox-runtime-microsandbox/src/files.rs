//! Where the driver keeps what `msb` does not know, beside what `msb` keeps for itself.
//!
//! ```text
//! msb/records/sandboxes/NAME/   sandbox.json, applied.json, life.json, machine.pid, sessions.json, root.img,
//!                               change.lock, starting.lock, link.{lock,sock,log}; outlet.{json,lock,sock,log},
//!                               network.log, authority.json: of the process that serves its network
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

/// The private runtime's home, with what the driver adds.
#[derive(Debug, Clone)]
pub struct Files {
    pub home: MsbFiles,
}

impl Files {
    /// Everything of ours that `msb` does not know.
    pub fn records(&self) -> PathBuf {
        self.home.dir.join("records")
    }

    /// Where `msb` looks for its settings, so that it finds none of the user's.
    pub fn config(&self) -> PathBuf {
        self.home.dir.join("config.json")
    }

    /// One folder per sandbox, by name.
    pub fn sandboxes(&self) -> PathBuf {
        self.records().join("sandboxes")
    }

    /// Paths alone: the sandbox need not be there.
    pub fn sandbox(&self, name: &SandboxName) -> SandboxPaths {
        SandboxPaths { dir: self.sandboxes().join(name), msb: self.home.dir.join("sandboxes").join(name) }
    }

    /// Held while a sandbox is made.
    pub fn create_lock(&self) -> PathBuf {
        self.records().join("create.lock")
    }

    /// Held while images change.
    pub fn images_lock(&self) -> PathBuf {
        self.records().join("images.lock")
    }

    /// One file per reference, naming its digest.
    pub fn references(&self) -> PathBuf {
        self.records().join("references")
    }

    /// What is known of one content; it is there once the content is loaded.
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
    /// For a folder that was found; the paths of `msb` are of no use.
    pub fn at(dir: &Path) -> Self {
        Self { dir: dir.into(), msb: PathBuf::new() }
    }

    /// What the sandbox was made with. Where it is, there is a sandbox.
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

    /// The writable disk above the image, as `msb` mounts it.
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

    /// Held by the link process for as long as it lives.
    pub fn link_lock(&self) -> PathBuf {
        self.dir.join("link.lock")
    }

    /// Where the link process hands out streams.
    pub fn link_socket(&self) -> PathBuf {
        self.dir.join("link.sock")
    }

    /// What the link process says, of this boot.
    pub fn link_log(&self) -> PathBuf {
        self.dir.join("link.log")
    }

    /// Where the process that serves its network was last.
    pub fn outlet(&self) -> PathBuf {
        self.dir.join("outlet.json")
    }

    /// Held by that process for as long as it lives.
    pub fn outlet_lock(&self) -> PathBuf {
        self.dir.join("outlet.lock")
    }

    /// Where it is told other values of secrets.
    pub fn outlet_socket(&self) -> PathBuf {
        self.dir.join("outlet.sock")
    }

    /// What it says, for people.
    pub fn outlet_log(&self) -> PathBuf {
        self.dir.join("outlet.log")
    }

    /// What the guest tried to reach: a JSON document a line.
    pub fn network_log(&self) -> PathBuf {
        self.dir.join("network.log")
    }

    /// The certificate authority that this sandbox alone trusts.
    pub fn authority(&self) -> PathBuf {
        self.dir.join("authority.json")
    }

    /// What the guest's kernel says.
    pub fn console_log(&self) -> PathBuf {
        self.msb.join("logs/kernel.log")
    }

    /// What the machine's own process says.
    pub fn machine_log(&self) -> PathBuf {
        self.msb.join("logs/runtime.log")
    }

    /// Written by `msb` at each boot.
    pub fn boot_id(&self) -> PathBuf {
        self.msb.join("runtime/runtime-boot-id")
    }
}

use std::path::{Path, PathBuf};

/// The driver's own files beside its sandboxes: `dir` is its folder.
pub mod own {
    use super::{Path, PathBuf};

    /// Held while sandboxes' folders come and go.
    pub fn create_lock(dir: &Path) -> PathBuf {
        dir.join("create.lock")
    }

    /// Held while images change.
    pub fn images_lock(dir: &Path) -> PathBuf {
        dir.join("images.lock")
    }

    /// What the last boot with KVM showed.
    pub fn kvm_record(dir: &Path) -> PathBuf {
        dir.join("kvm.json")
    }

    /// What the user was told about doing without KVM.
    pub fn emulated_record(dir: &Path) -> PathBuf {
        dir.join("emulated.json")
    }

    /// What the installed QEMU said of itself.
    pub fn qemu_record(dir: &Path) -> PathBuf {
        dir.join("qemu.json")
    }
}

/// The files of one image's folder.
pub mod image {
    use super::{Path, PathBuf};

    /// Written when the whole of the image is there.
    pub fn record(dir: &Path) -> PathBuf {
        dir.join("image.json")
    }

    /// The image's root, one EROFS file, which every sandbox of it mounts.
    pub fn rootfs(dir: &Path) -> PathBuf {
        dir.join("rootfs.erofs")
    }
}

/// The files of one sandbox's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineFiles {
    /// Absolute: the folder of [`sandbox_state::QemuLayout::sandbox`].
    pub dir: PathBuf,
}

impl MachineFiles {
    /// QEMU, which runs in the folder, knows it by name.
    pub const STATE_NAME: &str = "memory.state";
    /// The socket of the share server of all mounts, which QEMU knows by name as well.
    pub const MOUNTS_SOCKET: &str = "mounts.sock";

    /// `dir` need not be there.
    pub fn new(dir: &Path) -> Self {
        Self { dir: dir.into() }
    }

    /// What the sandbox was made with. Where it is, there is a sandbox.
    pub fn record(&self) -> PathBuf {
        self.dir.join("sandbox.json")
    }

    /// The writable disk above the image.
    pub fn root_disk(&self) -> PathBuf {
        self.dir.join("root.ext4")
    }

    /// Held by the machine process for life.
    pub fn lock(&self) -> PathBuf {
        self.dir.join("machine.lock")
    }

    /// Held by whoever starts, changes or removes the sandbox.
    pub fn change_lock(&self) -> PathBuf {
        self.dir.join("change.lock")
    }

    /// Where the machine process takes clients.
    pub fn socket(&self) -> PathBuf {
        self.dir.join("machine.sock")
    }

    /// Of the checkout's share server, for QEMU alone.
    pub fn share_socket(&self) -> PathBuf {
        self.dir.join("share.sock")
    }

    /// Of what is mounted beside the checkout.
    pub fn mounts_socket(&self) -> PathBuf {
        self.dir.join(Self::MOUNTS_SOCKET)
    }

    /// What the machine process and QEMU say, and the helpers too.
    pub fn machine_log(&self) -> PathBuf {
        self.dir.join("machine.log")
    }

    /// What the guest's kernel and its first process say.
    pub fn console_log(&self) -> PathBuf {
        self.dir.join("console.log")
    }

    /// What the guest tried to reach: a JSON document a line.
    pub fn network_log(&self) -> PathBuf {
        self.dir.join("network.log")
    }

    /// The certificate authority that this sandbox alone trusts.
    pub fn authority(&self) -> PathBuf {
        self.dir.join("authority.json")
    }

    /// The memory of a sleeping machine.
    pub fn memory(&self) -> PathBuf {
        self.dir.join("memory.ram")
    }

    /// The same, until all of it is written.
    pub fn memory_aside(&self) -> PathBuf {
        self.dir.join("memory.ram.new")
    }

    /// The devices' state of a sleeping machine.
    pub fn memory_state(&self) -> PathBuf {
        self.dir.join(Self::STATE_NAME)
    }

    /// What makes the two valid.
    pub fn memory_record(&self) -> PathBuf {
        self.dir.join("memory.json")
    }

    /// Held by whoever uses, drops or shrinks saved memory.
    pub fn memory_lock(&self) -> PathBuf {
        self.dir.join("memory.lock")
    }

    /// Why the last machine did not end well.
    pub fn problem(&self) -> PathBuf {
        self.dir.join("problem")
    }
}

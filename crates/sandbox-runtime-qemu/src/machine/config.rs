use std::path::PathBuf;

use sandbox_model::{Proxies, SandboxSpec};
use sandbox_network::BridgeSecrets;
pub use sandbox_wire::Accel;
use serde::{Deserialize, Serialize};

/// Which accelerator a machine may use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AccelChoice {
    /// KVM where a boot has proven it, else TCG.
    #[default]
    Auto,
    /// KVM or no boot.
    Kvm,
    /// QEMU's emulation, also where KVM would work.
    Tcg,
}

/// What the starter hands to a new machine process on its standard input.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct MachineConfig {
    /// The sandbox as its record has it.
    pub spec: SandboxSpec,
    /// Our own binary, for the share server and the network bridge.
    pub program: PathBuf,
    /// QEMU's system emulator, absolute.
    pub qemu: PathBuf,
    /// What QEMU's `-kernel` takes: an ELF file with a PVH entry.
    pub kernel: PathBuf,
    /// The archive that holds the guest program.
    pub initrd: PathBuf,
    /// The image's read-only root.
    pub rootfs: PathBuf,
    /// The image's own environment, below the sandbox's.
    pub image_env: Vec<(String, String)>,
    /// Accelerators to try, in order; each gets one boot, the last one two.
    pub accels: Vec<Accel>,
    /// How long a boot may take until commands can run.
    pub boot_deadline_secs: u64,
    /// Why this machine's memory is not to be saved; `None` where it may be.
    pub no_sleep: Option<String>,
    /// What the network bridge puts in. It is in pipes and in memory alone.
    pub secrets: Option<BridgeSecrets>,
    /// Through which proxies the network bridge reaches the world. They may have a password.
    pub proxies: Option<Proxies>,
}

/// The one line a machine process writes on its standard output, for the starter that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "report")]
pub enum StartReport {
    /// Commands can run in the guest.
    Ready {
        /// The one that runs it.
        accel: Accel,
        /// What went another way than planned, one sentence each for the user.
        notes: Vec<String>,
        /// It went on from saved memory.
        woken: bool,
    },
    /// There is no machine.
    Failed {
        /// Why, for people.
        problem: String,
        /// The last lines of the guest's console; empty where it never had one.
        log: String,
    },
    /// Another process has the sandbox's lock: its starter died, and it boots for whoever comes next.
    Taken,
}

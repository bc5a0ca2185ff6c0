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
    Kvm,
    Tcg,
}

/// What the starter hands to a new machine process on its standard input.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct MachineConfig {
    pub spec: SandboxSpec,
    /// Our own binary, for the share server and the network bridge.
    pub program: PathBuf,
    pub qemu: PathBuf,
    pub kernel: PathBuf,
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
    Ready {
        accel: Accel,
        notes: Vec<String>,
        /// It went on from saved memory.
        woken: bool,
    },
    Failed {
        problem: String,
        log: String,
    },
}

use std::path::PathBuf;

use sandbox_runtime::RuntimeError;

pub use crate::machine::AccelChoice;

/// Finds the guest kernel, a file that QEMU's `-kernel` takes, when a boot needs it.
pub type KernelSource = Box<dyn Fn() -> Result<PathBuf, RuntimeError> + Send + Sync>;

/// What the program decides for the driver.
pub struct QemuOptions {
    /// Our own binary: machine process, share server and network bridge are verbs of it.
    pub program: PathBuf,
    /// Where the guest's kernel is from; asked at each boot.
    pub kernel: KernelSource,
    /// What the settings allow.
    pub accel: AccelChoice,
    /// Told, once each, what the user should know about a boot that went another way than planned.
    pub notice: Box<dyn Fn(&str) + Send + Sync>,
}

impl std::fmt::Debug for QemuOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QemuOptions")
            .field("program", &self.program)
            .field("accel", &self.accel)
            .finish_non_exhaustive()
    }
}

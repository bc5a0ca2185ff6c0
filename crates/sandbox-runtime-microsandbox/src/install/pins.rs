use std::path::Path;

use super::{Installed, RuntimeInstallError};

/// The pinned version of microsandbox.
pub const VERSION: &str = "0.7.11";

/// The kernel library's file, and the names that link to it.
pub(crate) const LIBKRUNFW: &str = "libkrunfw.so.5.6.1";
pub(crate) const LIBKRUNFW_LINKS: [&str; 2] = ["libkrunfw.so.5", "libkrunfw.so"];

/// One file of the runtime, as it must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pin {
    pub name: &'static str,
    /// Folder within a version.
    pub dir: &'static str,
    pub mode: u32,
    pub size: u64,
    /// SHA-256, lower-case hexadecimal.
    pub sha256: String,
}

/// A version and its files. The libraries of the same project that this workspace builds with are of the
/// same version: the two are raised together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pins {
    pub version: &'static str,
    /// As release archives and Python packages name it.
    pub arch: &'static str,
    pub files: [Pin; 2],
}

impl Pins {
    pub fn for_this_machine() -> Result<Self, RuntimeInstallError> {
        Self::for_arch(std::env::consts::ARCH)
    }

    pub fn for_arch(arch: &str) -> Result<Self, RuntimeInstallError> {
        if arch != "x86_64" {
            return Err(RuntimeInstallError::NoPins { arch: arch.into() });
        }
        Ok(Self {
            version: VERSION,
            arch: "x86_64",
            files: [
                Pin {
                    name: "msb",
                    dir: "bin",
                    mode: 0o700,
                    size: 52_761_528,
                    sha256: "02230b0d0ccab4da487c96282ef06bc366a603f0b95201e999cf9e13df31767e".into(),
                },
                Pin {
                    name: LIBKRUNFW,
                    dir: "lib",
                    mode: 0o600,
                    size: 21_628_880,
                    sha256: "3854efcd3fe625528fa00207d97586d9790db8c436bb6881a43986604336d18e".into(),
                },
            ],
        })
    }

    pub fn installed_in(&self, dir: &Path) -> Installed {
        let [msb, libkrunfw] = &self.files;
        Installed {
            version: self.version,
            msb: dir.join(msb.dir).join(msb.name),
            libkrunfw: dir.join(libkrunfw.dir).join(libkrunfw.name),
        }
    }
}

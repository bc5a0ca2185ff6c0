//! What is in [`sandbox_state::Layout::engine`]: here `dir`.

use std::path::{Path, PathBuf};

/// Images of buildah and podman.
pub fn storage(dir: &Path) -> PathBuf {
    dir.join("storage")
}

/// Which driver fits that storage: it cannot change.
pub fn storage_driver(dir: &Path) -> PathBuf {
    dir.join("storage-driver")
}

/// Held shared by each build, alone by whoever clears up after those that failed.
pub fn builds_lock(dir: &Path) -> PathBuf {
    dir.join("builds.lock")
}

/// Root file systems of bootstrapped releases, one folder for each.
pub fn base(dir: &Path, suite: &str) -> PathBuf {
    dir.join("bases").join(suite)
}

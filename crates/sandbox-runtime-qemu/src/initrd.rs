//! The initrd: the guest program and nothing else, packed by the build script.

use std::path::{Path, PathBuf};

use sandbox_state::StateError;

const INITRD: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/initrd.cpio"));

/// The initrd as a file in `boot_dir`, written once per content.
pub fn initrd(boot_dir: &Path) -> Result<PathBuf, StateError> {
    let path = boot_dir.join(concat!("initrd-", env!("INITRD_ID"), ".cpio"));
    if fs_err::metadata(&path).is_ok_and(|found| found.len() == INITRD.len() as u64) {
        return Ok(path);
    }
    sandbox_state::write_private(&path, INITRD)?;
    Ok(path)
}

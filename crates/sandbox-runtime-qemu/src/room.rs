//! Whether the guest's memory may be saved, and whether there is room for it.

use std::path::Path;

use sandbox_model::{ByteSize, SandboxSpec};
use sandbox_runtime::RuntimeError;

use crate::version;

/// What the disk must have left once the memory is on it.
const SPARE: ByteSize = ByteSize::gib(1);

/// Why the memory of a boot of `spec` is not to be saved; `None` where it may be.
pub fn why_no_sleep(
    spec: &SandboxSpec,
    qemu: &Path,
    qemu_dir: &Path,
) -> Result<Option<String>, RuntimeError> {
    if !spec.sleep {
        return Ok(Some("its settings do not allow it".into()));
    }
    version::why_no_sleep(qemu_dir, qemu)
}

/// Why `taken` bytes of memory do not fit beside the sandbox in `dir`; `None` where they do.
pub fn too_little(taken: u64, dir: &Path) -> std::io::Result<Option<String>> {
    let disk = rustix::fs::statvfs(dir)?;
    Ok(lacks(disk.f_bavail.saturating_mul(disk.f_frsize), ByteSize::from_bytes(taken), dir))
}

fn lacks(free: u64, memory: ByteSize, dir: &Path) -> Option<String> {
    let needed = memory.bytes().saturating_add(SPARE.bytes());
    (free < needed).then(|| {
        format!(
            "{} has {} MB left, and saving {memory} of memory needs {} MB",
            dir.display(),
            free >> 20,
            needed >> 20
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_takes_no_memory() {
        let dir = Path::new("/state");
        assert_eq!(lacks(5 << 30, ByteSize::gib(4), dir), None);
        let reason = lacks((5 << 30) - 1, ByteSize::gib(4), dir).unwrap();
        assert_eq!(reason, "/state has 5119 MB left, and saving 4G of memory needs 5120 MB");
    }
}

//! Whether a boot may keep the guest's memory in a file of the sandbox's folder.

use std::path::Path;

use sandbox_model::{ByteSize, SandboxSpec};
use sandbox_runtime::RuntimeError;

use crate::version;

/// What the disk must have left once the guest has used all of its memory: QEMU dies when it has not.
const SPARE: ByteSize = ByteSize::gib(1);

/// Why the memory of a boot of `spec` is not to be saved; `None` where it may be.
pub fn why_no_sleep(
    spec: &SandboxSpec,
    qemu: &Path,
    qemu_dir: &Path,
    sandbox_dir: &Path,
) -> Result<Option<String>, RuntimeError> {
    if !spec.sleep {
        return Ok(Some("its settings do not allow it".into()));
    }
    if let Some(reason) = version::why_no_sleep(qemu_dir, qemu)? {
        return Ok(Some(reason));
    }
    let disk = rustix::fs::statvfs(sandbox_dir).map_err(std::io::Error::from)?;
    Ok(too_little(disk.f_bavail.saturating_mul(disk.f_frsize), spec.resources.memory, sandbox_dir))
}

fn too_little(free: u64, memory: ByteSize, dir: &Path) -> Option<String> {
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
    fn a_full_disk_keeps_memory_out_of_files() {
        let dir = Path::new("/state");
        assert_eq!(too_little(5 << 30, ByteSize::gib(4), dir), None);
        let reason = too_little((5 << 30) - 1, ByteSize::gib(4), dir).unwrap();
        assert_eq!(reason, "/state has 5119 MB left, and saving 4G of memory needs 5120 MB");
    }
}

//! What a saved memory belongs to: the programs that made it, the machine, and the disks.

use std::path::Path;

use sandbox_runtime::RuntimeError;
use sha2::{Digest as _, Sha256};

use super::config::{Accel, MachineConfig};
use super::parts::command;
use super::sleep::Disks;
use crate::files::MachineFiles;
use crate::mark::FileMark;
use crate::memory::Made;

/// Names for people, with words that are equal only for the very same thing.
pub fn made(config: &MachineConfig, accel: Accel) -> Result<Made, RuntimeError> {
    let file = |path: &Path| -> Result<String, RuntimeError> {
        Ok(format!("{} {:?}", path.display(), FileMark::of(path)?))
    };
    // The counter's rate is measured at every boot, and is no part of what the machine is.
    let arguments = command(config, accel, None, true).arguments();
    let arguments: Vec<_> = arguments.iter().map(|word| word.to_string_lossy()).collect();
    let machine = hex::encode(Sha256::digest(arguments.join("\n")));
    let program = format!("{} {}", env!("CARGO_PKG_VERSION"), file(&config.program)?);
    Ok(Made::from([
        ("QEMU".into(), file(&config.qemu)?),
        ("the virtual machine".into(), machine),
        ("the guest's kernel".into(), file(&config.kernel)?),
        ("the guest program".into(), file(&config.initrd)?),
        // Machine process, share server and network bridge are all this one.
        ("this program".into(), program),
    ]))
}

/// The marks of the disks as they are now: a memory goes on only with the very bytes that its guest had open.
pub fn disks(files: &MachineFiles, config: &MachineConfig) -> Result<Disks, RuntimeError> {
    Ok(Disks::from([
        ("the image".into(), FileMark::of(&config.rootfs)?),
        ("the root disk".into(), FileMark::of(&files.root_disk())?),
        ("the home volume".into(), FileMark::of(&config.spec.home.path)?),
    ]))
}

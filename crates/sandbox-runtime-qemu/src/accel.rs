//! Which accelerators a boot may try.
//!
//! `/dev/kvm` that opens proves nothing: nested or paravirtual KVM may open and then run no guest. So it
//! is tried only where the CPU says that it virtualizes, and remembered as useless after a boot with it
//! failed, until the host's kernel or QEMU changes.

use std::path::Path;

use fs_err as fs;
use sandbox_runtime::RuntimeError;
use sandbox_state::{read_record, write_record};
use serde::{Deserialize, Serialize};

use crate::error::from_state;
use crate::files::own::{emulated_record, kvm_record};
use crate::machine::{Accel, AccelChoice};

/// `kvm.json`: what the last boot with KVM showed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct KvmRecord {
    /// Kernel release of the host and QEMU's file: what the finding depends on.
    host: String,
    works: bool,
}

/// What the host says about KVM, before anything is tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KvmHint {
    /// The CPU virtualizes and the device opens.
    Plausible,
    No(String),
}

pub fn kvm_hint() -> KvmHint {
    let flags = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let virtualizes = flags
        .lines()
        .filter(|line| line.starts_with("flags"))
        .any(|line| line.split_whitespace().any(|flag| flag == "vmx" || flag == "svm"));
    if !virtualizes {
        return KvmHint::No("this machine's CPU offers no hardware virtualization".into());
    }
    match std::fs::OpenOptions::new().read(true).write(true).open("/dev/kvm") {
        Ok(_) => KvmHint::Plausible,
        Err(error) => KvmHint::No(format!("/dev/kvm cannot be used: {error}")),
    }
}

/// `emulated.json`: what the user was told about doing without KVM.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ToldRecord {
    /// As in [`KvmRecord`].
    host: String,
    why: String,
}

/// True for the first caller with this reason, on this kernel and with this QEMU.
pub fn tell_once(dir: &Path, qemu: &Path, why: &str) -> Result<bool, RuntimeError> {
    let path = emulated_record(dir);
    let record = ToldRecord { host: host(qemu), why: why.into() };
    // One that cannot be read was written by nobody whom it helps.
    if read_record(&path).ok().flatten().as_ref() == Some(&record) {
        return Ok(false);
    }
    write_record(&path, &record).map_err(from_state)?;
    Ok(true)
}

fn host(qemu: &Path) -> String {
    let release = rustix::system::uname();
    let modified = fs::metadata(qemu).and_then(|file| file.modified()).ok();
    format!("{} {} {modified:?}", release.release().to_string_lossy(), qemu.display())
}

/// The accelerators to try, best first, and why KVM is not among them.
pub fn candidates(
    choice: AccelChoice,
    dir: &Path,
    qemu: &Path,
) -> Result<(Vec<Accel>, Option<String>), RuntimeError> {
    match choice {
        AccelChoice::Kvm => return Ok((vec![Accel::Kvm], None)),
        AccelChoice::Tcg => return Ok((vec![Accel::Tcg], None)),
        AccelChoice::Auto => {}
    }
    if let KvmHint::No(why) = kvm_hint() {
        return Ok((vec![Accel::Tcg], Some(why)));
    }
    let record: Option<KvmRecord> = read_record(&kvm_record(dir)).map_err(from_state)?;
    match record {
        Some(record) if record.host == host(qemu) && !record.works => {
            Ok((vec![Accel::Tcg], Some("a boot with KVM failed on this machine before".into())))
        }
        _ => Ok((vec![Accel::Kvm, Accel::Tcg], None)),
    }
}

/// Remembers what a boot with KVM among its candidates showed.
pub fn remember(dir: &Path, qemu: &Path, candidates: &[Accel], used: Accel) -> Result<(), RuntimeError> {
    if candidates.first() != Some(&Accel::Kvm) || candidates.len() < 2 {
        return Ok(());
    }
    let record = KvmRecord { host: host(qemu), works: used == Accel::Kvm };
    if read_record(&kvm_record(dir)).map_err(from_state)?.as_ref() == Some(&record) {
        return Ok(());
    }
    write_record(&kvm_record(dir), &record).map_err(from_state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doing_without_kvm_is_told_once_for_each_reason_and_qemu() {
        let dir = tempfile::tempdir().unwrap();
        let (one, other) = (dir.path().join("qemu"), dir.path().join("qemu-2"));
        let told = |qemu: &Path, why| tell_once(dir.path(), qemu, why).unwrap();
        assert!(told(&one, "no flag"));
        assert!(!told(&one, "no flag"));
        assert!(told(&one, "no device"), "it is another reason by now");
        assert!(told(&other, "no device"), "it is another QEMU by now");
        assert!(!told(&other, "no device"));
        fs::write(emulated_record(dir.path()), "damaged").unwrap();
        assert!(told(&other, "no device"));
    }
}

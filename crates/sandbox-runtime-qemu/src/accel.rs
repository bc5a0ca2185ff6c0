//! Which accelerators a boot may try.
//!
//! `/dev/kvm` that opens proves nothing: nested or paravirtual KVM may open and then run no guest. So it
//! is tried only where the CPU says that it virtualizes, and remembered as useless after a boot with it
//! failed, until the host's kernel or QEMU changes.
//!
//! A KVM that hangs costs the whole deadline of a boot, once: a shorter one would take a busy computer for a
//! broken one, and what is remembered then would slow down every sandbox after it.

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
    /// Why not, for people.
    No(String),
}

/// Reads `/proc/cpuinfo` and opens the device; that a guest runs with it is shown by a boot alone.
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
    automatic(kvm_hint(), dir, qemu)
}

fn automatic(hint: KvmHint, dir: &Path, qemu: &Path) -> Result<(Vec<Accel>, Option<String>), RuntimeError> {
    if let KvmHint::No(why) = hint {
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
    use std::path::PathBuf;

    use super::*;

    const BOTH: [Accel; 2] = [Accel::Kvm, Accel::Tcg];

    struct Place {
        dir: tempfile::TempDir,
        qemu: PathBuf,
    }

    impl Place {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let qemu = dir.path().join("qemu");
            fs::write(&qemu, "one").unwrap();
            Self { dir, qemu }
        }

        fn automatic(&self, hint: KvmHint) -> (Vec<Accel>, Option<String>) {
            automatic(hint, self.dir.path(), &self.qemu).unwrap()
        }

        /// The accelerators that the next boot tries.
        fn tries(&self) -> Vec<Accel> {
            self.automatic(KvmHint::Plausible).0
        }

        fn remember(&self, candidates: &[Accel], used: Accel) {
            remember(self.dir.path(), &self.qemu, candidates, used).unwrap();
        }
    }

    #[test]
    fn kvm_is_tried_first_where_it_may_work_and_not_at_all_where_it_cannot() {
        let place = Place::new();
        assert_eq!(place.automatic(KvmHint::Plausible), (BOTH.to_vec(), None));
        let why = "no such device".to_string();
        assert_eq!(place.automatic(KvmHint::No(why.clone())), (vec![Accel::Tcg], Some(why)));
        // Whoever says which one means it.
        for (choice, accel) in [(AccelChoice::Kvm, Accel::Kvm), (AccelChoice::Tcg, Accel::Tcg)] {
            let said = candidates(choice, place.dir.path(), &place.qemu).unwrap();
            assert_eq!(said, (vec![accel], None));
        }
    }

    #[test]
    fn one_that_failed_is_left_alone_until_qemu_is_another() {
        let place = Place::new();
        place.remember(&BOTH, Accel::Kvm);
        assert_eq!(place.tries(), BOTH, "it works");
        place.remember(&BOTH, Accel::Tcg);
        let (tries, why) = place.automatic(KvmHint::Plausible);
        assert_eq!(
            (tries, why.unwrap().as_str()),
            (vec![Accel::Tcg], "a boot with KVM failed on this machine before")
        );
        let newer = std::time::SystemTime::now() + std::time::Duration::from_secs(9);
        std::fs::File::options().write(true).open(&place.qemu).unwrap().set_modified(newer).unwrap();
        assert_eq!(place.tries(), BOTH);
    }

    #[test]
    fn what_another_kernel_showed_says_nothing_of_this_one() {
        let place = Place::new();
        let record = KvmRecord { host: format!("0.0.1 {}", host(&place.qemu)), works: false };
        write_record(&kvm_record(place.dir.path()), &record).unwrap();
        assert_eq!(place.tries(), BOTH);
        // The control: the same finding of this kernel.
        write_record(&kvm_record(place.dir.path()), &KvmRecord { host: host(&place.qemu), ..record })
            .unwrap();
        assert_eq!(place.tries(), [Accel::Tcg]);
    }

    #[test]
    fn a_boot_that_had_no_choice_shows_nothing() {
        let place = Place::new();
        for candidates in [&[Accel::Tcg][..], &[Accel::Kvm]] {
            place.remember(candidates, Accel::Tcg);
        }
        assert!(!kvm_record(place.dir.path()).exists());
    }

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

use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::path::Path;

use super::Finding;

const CHECK: &str = "host kernel";

/// Folders are opened as they are recorded, so that no link put there since leads a sandbox elsewhere (`openat2`).
pub fn check() -> Finding {
    let system = rustix::system::uname();
    judge(&sandbox_state::open_resolved(Path::new("/")), &system.release().to_string_lossy())
}

fn judge(opened: &std::io::Result<OwnedFd>, release: &str) -> Finding {
    match opened {
        Ok(_) => Finding::good(CHECK, format!("Linux {release}")),
        Err(error) if error.kind() == ErrorKind::Unsupported => Finding::missing(
            CHECK,
            format!("Linux {release} has no openat2"),
            "it takes Linux 5.6 or newer; in a container, one whose rules know openat2",
        ),
        Err(error) => Finding::missing(
            CHECK,
            format!("Linux {release} opens no folder with openat2: {error}"),
            "what started this program forbids it: a container's or a service's rules, which must allow openat2",
        ),
    }
}

#[cfg(test)]
mod tests {
    use crate::doctor::Grade;

    use super::*;

    #[test]
    fn a_kernel_that_cannot_open_without_links_is_said() {
        assert_eq!(check().grade, Grade::Good, "{:?}", check());
        for (errno, word) in [(rustix::io::Errno::NOSYS, "5.6"), (rustix::io::Errno::PERM, "forbids")] {
            let finding = judge(&Err(errno.into()), "5.4.0");
            assert_eq!(finding.grade, Grade::Missing);
            assert!(finding.detail.contains("5.4.0"), "{finding:?}");
            assert!(finding.hint.as_deref().unwrap_or_default().contains(word), "{finding:?}");
        }
    }
}

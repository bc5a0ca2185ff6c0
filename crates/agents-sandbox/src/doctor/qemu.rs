use std::process::Command;

use sandbox_runtime_qemu::{SLEEPS_SINCE, Version, find_qemu};

use super::Finding;

const CHECK: &str = "qemu";
/// What our machines are made of.
const NEEDED: Version = Version(7, 2);
const INSTALL: &str = "install QEMU: `apt-get install qemu-system-x86`";

pub fn check() -> Finding {
    let path = match find_qemu() {
        Ok(path) => path,
        Err(error) => return Finding::missing(CHECK, error.to_string(), INSTALL),
    };
    let output = match Command::new(&path).arg("--version").output() {
        Ok(output) => String::from_utf8_lossy(&output.stdout).into_owned(),
        Err(error) => return Finding::missing(CHECK, format!("{}: {error}", path.display()), INSTALL),
    };
    judge(&output, &path.display().to_string())
}

fn judge(output: &str, path: &str) -> Finding {
    let Some((version, text)) = Version::read(output) else {
        return Finding::missing(CHECK, format!("{path} does not say its version"), INSTALL);
    };
    let detail = format!("version {text}, {path}");
    if version < NEEDED {
        return Finding::missing(CHECK, detail, format!("QEMU {NEEDED} or newer is needed"));
    }
    if version < SLEEPS_SINCE {
        return Finding::good(CHECK, format!("{detail}; sleep needs {SLEEPS_SINCE}"));
    }
    Finding::good(CHECK, detail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Grade;

    #[test]
    fn versions_are_judged() {
        for (output, grade, word) in [
            ("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7)\nCopyright", Grade::Good, "sleep needs 8.2"),
            ("QEMU emulator version 10.0.2", Grade::Good, "version 10.0.2"),
            ("QEMU emulator version 6.2.0", Grade::Missing, "6.2.0"),
            ("something else", Grade::Missing, "does not say"),
        ] {
            let finding = judge(output, "/usr/bin/qemu");
            assert_eq!(finding.grade, grade, "{finding:?}");
            assert!(finding.detail.contains(word), "{finding:?}");
        }
    }
}

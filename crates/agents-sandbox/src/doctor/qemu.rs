use std::process::Command;

use sandbox_runtime_qemu::find_qemu;

use super::Finding;

const CHECK: &str = "qemu";
/// What our machines are made of.
const NEEDED: (u32, u32) = (7, 2);
/// The first that can save and restore a machine with a shared folder.
const SLEEP: (u32, u32) = (8, 2);
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
    let Some((version, text)) = version(output) else {
        return Finding::missing(CHECK, format!("{path} does not say its version"), INSTALL);
    };
    let detail = format!("version {text}, {path}");
    if version < NEEDED {
        let (major, minor) = NEEDED;
        return Finding::missing(CHECK, detail, format!("QEMU {major}.{minor} or newer is needed"));
    }
    if version < SLEEP {
        let (major, minor) = SLEEP;
        return Finding::good(CHECK, format!("{detail}; sleep needs {major}.{minor}"));
    }
    Finding::good(CHECK, detail)
}

/// `QEMU emulator version 7.2.22 (Debian …)`.
fn version(output: &str) -> Option<((u32, u32), &str)> {
    let text = output.split_once("version ")?.1.split_whitespace().next()?;
    let mut numbers = text.split('.').map(str::parse);
    Some(((numbers.next()?.ok()?, numbers.next()?.ok()?), text))
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

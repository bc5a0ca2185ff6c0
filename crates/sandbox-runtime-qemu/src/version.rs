//! Which QEMU this is, and whether it can save and restore a machine that shares a folder.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sandbox_runtime::RuntimeError;
use sandbox_state::{read_record, write_record};
use serde::{Deserialize, Serialize};

use crate::error::from_state;
use crate::files::own::qemu_record;
use crate::mark::FileMark;

/// The first version that migrates a machine with a vhost-user file system, and to a plain file.
pub const SLEEPS_SINCE: Version = Version(8, 2);

/// Major and minor: what comes after them changes nothing that is asked here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Version(pub u32, pub u32);

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

impl Version {
    /// From `QEMU emulator version 10.0.2 (…)`; with it `10.0.2`, as it stands there.
    pub fn read(output: &str) -> Option<(Self, &str)> {
        let whole = output.split_once("version ")?.1.split_whitespace().next()?;
        let mut parts = whole.split(|c: char| !c.is_ascii_digit());
        Some((Self(parts.next()?.parse().ok()?, parts.next()?.parse().ok()?), whole))
    }
}

/// `qemu.json`: what a program file said of itself, so that it is asked once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct QemuRecord {
    program: PathBuf,
    mark: FileMark,
    version: Option<Version>,
    /// The user was told what this version cannot do.
    told: bool,
}

fn look(dir: &Path, program: &Path) -> Result<QemuRecord, RuntimeError> {
    let mark = FileMark::of(program)?;
    let record: Option<QemuRecord> = read_record(&qemu_record(dir)).ok().flatten();
    if let Some(record) = record.filter(|record| record.program == program && record.mark == mark) {
        return Ok(record);
    }
    let output =
        Command::new(program).arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output().map_err(
            |error| RuntimeError::MissingProgram {
                program: program.display().to_string(),
                problem: error.to_string(),
            },
        )?;
    let version = Version::read(&String::from_utf8_lossy(&output.stdout)).map(|(version, _)| version);
    let record = QemuRecord { program: program.into(), mark, version, told: false };
    // A folder that is not there yet is no reason to make one: the next look asks again.
    if dir.is_dir() {
        write_record(&qemu_record(dir), &record).map_err(from_state)?;
    }
    Ok(record)
}

/// The version of `program`; `None` when it says nothing that looks like one.
pub fn version(dir: &Path, program: &Path) -> Result<Option<Version>, RuntimeError> {
    look(dir, program).map(|record| record.version)
}

/// Why `program` cannot save memory, if it cannot.
pub fn why_no_sleep(dir: &Path, program: &Path) -> Result<Option<String>, RuntimeError> {
    Ok(match version(dir, program)? {
        Some(version) if version >= SLEEPS_SINCE => None,
        Some(version) => {
            Some(format!("QEMU {version} cannot save a sandbox's memory, {SLEEPS_SINCE} and newer can"))
        }
        None => Some(format!("{} does not tell its version", program.display())),
    })
}

/// True for the first caller since this QEMU was installed.
pub fn tell_once(dir: &Path, program: &Path) -> Result<bool, RuntimeError> {
    let mut record = look(dir, program)?;
    if record.told {
        return Ok(false);
    }
    record.told = true;
    write_record(&qemu_record(dir), &record).map_err(from_state)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_ordered() {
        let debian = "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)\nCopyright";
        assert_eq!(Version::read(debian), Some((Version(7, 2), "7.2.22")));
        let newer = Version::read("QEMU emulator version 10.0.2").unwrap().0;
        assert!(Version(7, 2) < SLEEPS_SINCE && newer > SLEEPS_SINCE);
        assert_eq!(Version::read("something else"), None);
    }
}

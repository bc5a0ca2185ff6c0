//! What a place with releases has. Pure.

use std::fmt;
use std::str::FromStr;

use crate::commands::PROGRAM;

/// `1.2.3`: three numbers, compared as such.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version([u32; 3]);

impl FromStr for Version {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let numbers: Vec<u32> =
            text.split('.').map(|part| part.parse().map_err(drop)).collect::<Result<_, ()>>()?;
        numbers.try_into().map(Self).map_err(drop)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.0;
        write!(f, "{major}.{minor}.{patch}")
    }
}

/// One file of a release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    pub version: Version,
    pub file: String,
    /// Hex, lower case.
    pub sha256: String,
}

/// The newest release for a machine such as `linux-x86_64`, out of the lines of a `SHA256SUMS`. Other lines
/// are passed by.
pub fn newest(sums: &str, machine: &str) -> Option<Release> {
    sums.lines().filter_map(|line| release(line, machine)).max_by_key(|release| release.version)
}

fn release(line: &str, machine: &str) -> Option<Release> {
    let (sum, file) = line.split_once(char::is_whitespace)?;
    // Two signs: the second says that it was read as bytes.
    let file = file.trim_start().trim_start_matches('*');
    let version = file.strip_prefix(PROGRAM)?.strip_prefix('-')?.strip_suffix(machine)?.strip_suffix('-')?;
    let hex = sum.len() == 64 && sum.bytes().all(|byte| byte.is_ascii_hexdigit());
    hex.then_some(())?;
    Some(Release { version: version.parse().ok()?, file: file.into(), sha256: sum.to_ascii_lowercase() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_for_this_machine_is_found_and_odd_lines_are_passed_by() {
        let sum = "Ab".repeat(32);
        let sums = format!(
            "{sum}  agents-sandbox-0.9.0-linux-x86_64\n{sum} *agents-sandbox-0.10.0-linux-x86_64\n\
             {sum}  agents-sandbox-9.9.9-linux-aarch64\n{sum}  agents-sandbox-1.0.0-rc1-linux-x86_64\n\
             short  agents-sandbox-8.0.0-linux-x86_64\n{sum}  ../agents-sandbox-7.0.0-linux-x86_64\n\n{sum}\n"
        );
        let release = newest(&sums, "linux-x86_64").unwrap();
        assert_eq!(release.version.to_string(), "0.10.0");
        assert_eq!(release.file, "agents-sandbox-0.10.0-linux-x86_64");
        assert_eq!(release.sha256, "ab".repeat(32));
        assert_eq!(newest(&sums, "linux-riscv64"), None);
    }
}

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::time::Duration;

use crate::error::CommandError;
use crate::wiring;

/// For a whole release.
pub const DEADLINE: Duration = Duration::from_mins(10);
/// More than any release of ours; whoever sends more sends something else.
const LIMIT: u64 = 1 << 30;

/// A place with releases: a folder, or the https address of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    Folder(PathBuf),
    Address(String),
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Folder(folder) => folder.display().fmt(f),
            Self::Address(address) => f.write_str(address),
        }
    }
}

impl Source {
    /// As the setting `upgrade.source` has it.
    pub fn of(text: &str) -> Self {
        if text.starts_with("https://") { Self::Address(text.into()) } else { Self::Folder(text.into()) }
    }

    /// Writes one file of it into `to`; an address has so long to send all of it.
    pub fn fetch(
        &self,
        file: &str,
        deadline: Duration,
        to: &mut dyn Write,
        progress: &mut dyn FnMut(u64, Option<u64>),
    ) -> Result<(), CommandError> {
        let mut limited = Limited { to, left: LIMIT };
        match self {
            Self::Address(address) => {
                let address = format!("{address}/{file}");
                wiring::download(&address, deadline, &mut limited, progress)
                    .map_err(|error| CommandError::from_chain(&error))
            }
            Self::Folder(folder) => {
                let mut from = fs_err::File::open(folder.join(file))?;
                let total = from.metadata()?.len();
                let done = io::copy(&mut (&mut from).take(LIMIT + 1), &mut limited)?;
                progress(done, Some(total));
                Ok(())
            }
        }
    }
}

/// Fails where there is more than there may be.
struct Limited<'a> {
    to: &'a mut dyn Write,
    left: u64,
}

impl Write for Limited<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.to.write(bytes)?;
        self.left = self.left.checked_sub(count as u64).ok_or_else(|| io::Error::other("it is too large"))?;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

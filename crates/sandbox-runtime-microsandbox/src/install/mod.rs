//! Installing the runtime.
//!
//! ```text
//! msb/                  0700, the runtime's home
//!   0.7.11/bin/msb      the unit of installation: a folder that appears, or is exchanged, in one step
//!   0.7.11/lib/libkrunfw.so.5.6.1  (+ two links)
//!   bin, lib            links into it, for whoever knows only the home
//!   installed.json      written last: what was verified, and how the files looked then
//!   install.lock
//!   .new-XXXX/          being made; whatever a killed process left is cleared by the next one
//! ```
//!
//! Rules: the pins hold whatever the source; a folder with the version's name is complete; no record
//! means "look again". So a kill at any moment costs at most another installation. An older version stays
//! until the pinned one has started a sandbox, and for as long as something runs from it.

mod archive;
mod child;
mod download;
mod error;
mod get;
mod installation;
mod pins;
mod pip;
mod place;
mod source;

use std::path::PathBuf;

use sandbox_state::{Layout, Lock, LockMode, MsbFiles, make_private_dir};

pub use error::RuntimeInstallError;
pub use get::get;
pub use installation::{Found, Installation, installation, uninstall};
pub(crate) use installation::{is_run_from, retire_others};
use pins::Pins;
pub use pins::VERSION;
use place::Staged;
pub use source::RuntimeSource;

/// A runtime that may be used: both files were verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    /// The pinned one.
    pub version: &'static str,
    /// The program, absolute.
    pub msb: PathBuf,
    /// The library that it loads, which holds the guest's kernel.
    pub libkrunfw: PathBuf,
}

/// What a slow installation is doing. Nothing is reported when there is nothing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InstallEvent {
    /// Another process installs; this one waits for it.
    Waiting {
        /// Who that is, for people.
        holder: String,
    },
    /// The files in place are not what was installed.
    Damaged {
        /// How they differ, for people.
        problem: String,
    },
    /// A source is asked: a path, an address, or a command line.
    Asking {
        /// As people know it.
        source: String,
    },
    /// Bytes fetched so far, and of how many, where that is known. At least every half second.
    Fetched {
        /// So far.
        bytes: u64,
        /// `None` where the source does not say, as with pip.
        total: Option<u64>,
    },
    /// A source did not deliver; the next one is asked.
    Failed {
        /// As in [`InstallEvent::Asking`].
        source: String,
        /// Why not; of pip, with its last lines.
        problem: String,
    },
    /// The files are verified and in place.
    Installed {
        /// The pinned one.
        version: &'static str,
    },
}

pub(crate) type Events<'a> = &'a mut dyn FnMut(InstallEvent);

/// The pinned runtime, installed or repaired if need be. Safe to call from several processes at once.
pub fn ensure(
    layout: &Layout,
    source: &RuntimeSource,
    events: Events<'_>,
) -> Result<Installed, RuntimeInstallError> {
    ensure_pinned(&layout.msb_files(), &Pins::for_this_machine()?, source, events)
}

fn ensure_pinned(
    home: &MsbFiles,
    pins: &Pins,
    source: &RuntimeSource,
    events: Events<'_>,
) -> Result<Installed, RuntimeInstallError> {
    make_private_dir(&home.dir)?;
    let installed = pins.installed_in(&home.version(pins.version));
    if place::is_recorded(home, pins) {
        return Ok(installed);
    }
    let _lock = Lock::take(&home.lock(), LockMode::Exclusive, "install", |holder| {
        events(InstallEvent::Waiting { holder: holder.to_string() });
    })?;
    if place::is_recorded(home, pins) {
        return Ok(installed);
    }
    place::clear_leftovers(home)?;
    match place::verify(home, pins)? {
        place::Found::Whole => {}
        place::Found::Nothing => put(home, pins, source, events)?,
        place::Found::Damaged(problem) => {
            events(InstallEvent::Damaged { problem });
            put(home, pins, source, events)?;
        }
    }
    place::link_and_record(home, pins)?;
    Ok(installed)
}

fn put(
    home: &MsbFiles,
    pins: &Pins,
    source: &RuntimeSource,
    events: Events<'_>,
) -> Result<(), RuntimeInstallError> {
    let staged = Staged::new(home)?;
    source.fetch(pins, &staged, events)?;
    staged.into_place(home, pins)?;
    events(InstallEvent::Installed { version: pins.version });
    Ok(())
}

#[cfg(test)]
mod tests;

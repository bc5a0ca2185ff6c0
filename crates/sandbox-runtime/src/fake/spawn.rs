#![allow(unsafe_code)]
//! The one place where a new process is touched between its fork and its program.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::process::{Signal, ioctl_tiocsctty, set_parent_process_death_signal, setsid};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use sandbox_model::TermSize;

use crate::Result;

/// Where a command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Its stdin is a terminal that becomes its own.
    OwnTerminal,
    OwnSession,
    /// Like `OwnSession`, and it outlives whoever started it.
    Detached,
}

pub(super) fn prepare(command: &mut Command, place: Place) {
    let before_program = move || -> std::io::Result<()> {
        setsid()?;
        if place == Place::OwnTerminal {
            ioctl_tiocsctty(rustix::stdio::stdin())?;
        }
        if place != Place::Detached {
            set_parent_process_death_signal(Some(Signal::HUP))?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec only async-signal-safe work is allowed; the closure makes three plain
    // system calls, takes no lock and allocates nothing.
    unsafe {
        command.pre_exec(before_program);
    }
}

/// A new pseudo-terminal.
pub(super) struct Terminal {
    master: OwnedFd,
}

impl Terminal {
    pub fn open(size: TermSize) -> Result<Self> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags).map_err(std::io::Error::from)?;
        grantpt(&master).map_err(std::io::Error::from)?;
        unlockpt(&master).map_err(std::io::Error::from)?;
        let terminal = Self { master };
        resize(&terminal.master, size)?;
        Ok(terminal)
    }

    /// The command's three standard streams are the terminal.
    pub fn give_to(&self, command: &mut Command) -> Result<()> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let slave = File::from(ioctl_tiocgptpeer(&self.master, flags).map_err(std::io::Error::from)?);
        command.stdin(Stdio::from(slave.try_clone()?));
        command.stdout(Stdio::from(slave.try_clone()?));
        command.stderr(Stdio::from(slave));
        Ok(())
    }

    pub fn into_master(self) -> OwnedFd {
        self.master
    }
}

pub(super) fn resize(master: &OwnedFd, size: TermSize) -> Result<()> {
    let size = Winsize { ws_row: size.rows, ws_col: size.cols, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(master, size).map_err(|error| std::io::Error::from(error).into())
}

//! One folder, or several with a folder of ours above them.
//!
//! ```text
//!  one:      the folder itself is the root
//!  several:  /           nothing but these names, and nothing can be done here
//!            ├─ 0        a folder
//!            └─ 1        one file of a folder: no other name of that folder leads anywhere
//! ```
//!
//! Each folder is a pass-through file system of its own. Its numbers for files and handles travel with the
//! folder's number in their upper byte, so that every request finds its way back, and no request reaches from one
//! folder into another.

mod device;
mod requests;
mod state;

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Mutex;

use virtiofsd::filesystem::{Context, Entry, FileSystem};
use virtiofsd::fuse::ATTR_SUBMOUNT;
use virtiofsd::passthrough::PassthroughFs;

use super::{error, lock};
use crate::nodes::ROOT;

/// Where the folder's number is in a number of ours. The pass-through file system counts up from 1.
const SHIFT: u32 = 56;
const BELOW: u64 = (1 << SHIFT) - 1;
/// More folders than a sandbox can have.
pub(crate) const MOST: usize = 64;

type Fs = PassthroughFs;

/// One folder below the root.
pub(crate) struct Root {
    pub fs: PassthroughFs,
    /// Where `fs` finds its root: the folder, which is `.` for it.
    pub dir: OwnedFd,
    /// The one name of it that is shown, where it is not the whole folder.
    pub file: Option<CString>,
    pub readonly: bool,
}

/// All that one guest sees.
pub(crate) enum Roots {
    One(Box<PassthroughFs>),
    Several {
        roots: Vec<Root>,
        /// For their states, one after the other; made while files can be made.
        scratch: File,
        /// What each open handle of a single file was opened as: another file may be in its place by now.
        opened: Mutex<HashMap<u64, u64>>,
    },
}

impl From<PassthroughFs> for Roots {
    fn from(fs: PassthroughFs) -> Self {
        Self::One(Box::new(fs))
    }
}

impl Roots {
    pub(crate) fn several(roots: Vec<Root>) -> io::Result<Self> {
        let scratch = rustix::fs::memfd_create("share", rustix::fs::MemfdFlags::CLOEXEC)?;
        Ok(Self::Several { roots, scratch: scratch.into(), opened: Mutex::default() })
    }

    pub(super) const fn is_several(&self) -> bool {
        matches!(self, Self::Several { .. })
    }

    /// Whether `name`, at the very top, is a single file: what it leads to may be another one at any time.
    pub(super) fn is_single_file(&self, name: &CStr) -> bool {
        matches!(self, Self::Several { roots, .. }
            if place(name).and_then(|number| roots.get(number)).is_some_and(|root| root.file.is_some()))
    }

    /// The file system that a number of ours is of, its number in the upper byte, and its own number.
    fn of(&self, number: u64) -> io::Result<(&Fs, u64, u64)> {
        match self {
            Self::One(fs) => Ok((fs.as_ref(), 0, number)),
            Self::Several { roots, .. } => {
                let upper = number >> SHIFT;
                let root = usize::try_from(upper).ok().and_then(|upper| roots.get(upper.checked_sub(1)?));
                // The root of ours is of none of them.
                let root = root.ok_or_else(|| io::Error::from_raw_os_error(libc::EACCES))?;
                Ok((&root.fs, upper << SHIFT, number & BELOW))
            }
        }
    }

    /// As [`Roots::of`], for whoever changes something.
    fn to_change(&self, number: u64) -> io::Result<(&Fs, u64, u64)> {
        let found = self.of(number)?;
        if let Self::Several { roots, .. } = self
            && roots.iter().any(|root| root.readonly && std::ptr::eq(&raw const root.fs, found.0))
        {
            return error(libc::EROFS);
        }
        Ok(found)
    }

    /// Both of the same folder.
    fn pair(&self, a: u64, b: u64) -> io::Result<(&Fs, u64, u64, u64)> {
        let ((fs, upper, a), (_, other, b)) = (self.to_change(a)?, self.to_change(b)?);
        if upper == other { Ok((fs, upper, a, b)) } else { error(libc::EXDEV) }
    }

    /// The number that `handle` belongs to, where `inode` may be another file's by now: only for the one file
    /// of a folder. Anywhere else a handle of another file is the guest's lie, and the folder refuses it.
    fn opened_as(&self, inode: u64, handle: u64) -> u64 {
        match self {
            Self::Several { opened, .. }
                if self.shows_one_file(inode) && inode >> SHIFT == handle >> SHIFT =>
            {
                lock(opened).get(&handle).copied().unwrap_or(inode)
            }
            Self::Several { .. } | Self::One(_) => inode,
        }
    }

    /// Whether `handle`, used for `inode`, reaches that file and not the one that was in its place before.
    pub(super) fn is_of(&self, handle: u64, inode: u64) -> bool {
        self.opened_as(inode, handle) == inode
    }

    fn note_opened(&self, inode: u64, handle: Option<u64>) {
        if let (Self::Several { opened, .. }, Some(handle)) = (self, handle)
            && self.shows_one_file(inode)
        {
            lock(opened).insert(handle, inode);
        }
    }

    /// Whether the folder that `inode` is of shows a single file.
    fn shows_one_file(&self, inode: u64) -> bool {
        let number = usize::try_from(inode >> SHIFT).ok().and_then(|upper| upper.checked_sub(1));
        matches!(self, Self::Several { roots, .. }
            if number.and_then(|number| roots.get(number)).is_some_and(|root| root.file.is_some()))
    }

    fn top(&self, name: &CStr) -> io::Result<Entry> {
        let missing = || io::Error::from_raw_os_error(libc::ENOENT);
        let Self::Several { roots, .. } = self else { return Err(missing()) };
        let number = place(name).ok_or_else(missing)?;
        let root = roots.get(number).ok_or_else(missing)?;
        let upper = (number as u64 + 1) << SHIFT;
        let nobody = Context { uid: 0.into(), gid: 0.into(), pid: 0 };
        let mut entry = if let Some(file) = &root.file {
            let entry = root.fs.lookup(nobody, ROOT, file)?;
            if entry.attr.mode & libc::S_IFMT != libc::S_IFREG {
                root.fs.forget(nobody, entry.inode, 1);
                return Err(missing());
            }
            entry
        } else {
            let (attr, timeout) = root.fs.getattr(nobody, ROOT, None)?;
            Entry { inode: ROOT, generation: 0, attr, attr_timeout: timeout, entry_timeout: timeout }
        };
        entry.inode |= upper;
        // Inode numbers repeat in the next folder: each is a file system of its own.
        entry.attr.flags |= ATTR_SUBMOUNT;
        Ok(entry)
    }
}

fn place(name: &CStr) -> Option<usize> {
    name.to_str().ok()?.parse().ok().filter(|number| *number < MOST)
}

fn raised(mut entry: Entry, upper: u64) -> Entry {
    if entry.inode != 0 {
        entry.inode |= upper;
    }
    entry
}

/// The folder's own number of `handle`. Each folder counts from 1: without its number above, a handle would be
/// another one of the next folder.
fn lowered(handle: u64, upper: u64) -> io::Result<u64> {
    if handle & !BELOW == upper { Ok(handle & BELOW) } else { error(libc::EBADF) }
}

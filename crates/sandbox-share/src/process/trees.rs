//! Folders that are served side by side, each opened before the walls go up.
//!
//! Where the host allows namespaces, each is a copy of its mount that stands alone: nothing is above its top, so
//! that not even `..` leads out of it. Elsewhere it is the folder itself, and no name from the guest leads out.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::process::{getegid, geteuid};

use super::child::works_in_a_child;
use crate::config::ShareConfig;
use crate::error::ShareError;

/// Opens the folders. The calling process must have one thread.
pub(crate) fn open(config: &ShareConfig) -> Result<Vec<OwnedFd>, ShareError> {
    let mut folders = Vec::new();
    for part in &config.several {
        folders.push(open_resolved(&part.dir)?);
    }
    if folders.is_empty() {
        return Ok(folders);
    }
    if !works_in_a_child(|| stand_alone(&folders)).map_err(ShareError::Probe)? {
        log::warn!("this host allows no namespaces: folders are served as they are");
        return Ok(folders);
    }
    stand_alone(&folders).map_err(ShareError::Probe)
}

/// Opens a folder whose path was resolved: a link in it was put there since, by whoever works in a checkout on the
/// way, and is an error.
pub(crate) fn open_resolved(dir: &Path) -> Result<OwnedFd, ShareError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat2(CWD, dir, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)
        .map_err(|error| ShareError::Open { dir: dir.into(), source: error.into() })
}

/// Enters namespaces of its own, and copies each folder's mount there, with what is mounted inside.
fn stand_alone(folders: &[OwnedFd]) -> io::Result<Vec<OwnedFd>> {
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    // SAFETY: changes this process alone, which has one thread.
    check(unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS) }.into())?;
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
    std::fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))?;
    folders.iter().map(copy_of).collect()
}

fn copy_of(folder: &OwnedFd) -> io::Result<OwnedFd> {
    let flags = libc::OPEN_TREE_CLONE
        | libc::OPEN_TREE_CLOEXEC
        | (libc::AT_EMPTY_PATH | libc::AT_RECURSIVE).cast_unsigned();
    // SAFETY: the path is a string with its end, and the descriptor is open.
    let fd = unsafe { libc::syscall(libc::SYS_open_tree, folder.as_raw_fd(), c"".as_ptr(), flags) };
    let fd = i32::try_from(check(fd)?).map_err(io::Error::other)?;
    // SAFETY: the system call has just made it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn check(result: i64) -> io::Result<i64> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

//! What the guest may change.
//!
//! Two layers. Some changes are never allowed, whoever asks: they are refused in this module for
//! every share. Beyond that a [`Policy`] judges each change before it happens; the one in use allows
//! all of them, and a guard for the files that the host would execute takes its place here.

use std::ffi::CStr;
use std::io;

use crate::nodes::{NodeId, NodeTable};

/// A change the guest asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change<'a> {
    /// A new entry, or a new name for `of` when that is a node.
    Make {
        dir: NodeId,
        name: &'a CStr,
        kind: u32,
        of: Option<NodeId>,
    },
    Remove {
        dir: NodeId,
        name: &'a CStr,
    },
    /// With `exchange` both names stay, each with the other's file.
    Rename {
        from: (NodeId, &'a CStr),
        to: (NodeId, &'a CStr),
        exchange: bool,
    },
    /// Contents: opened for writing, written, cut or extended.
    Write {
        node: NodeId,
    },
    /// Mode or times.
    Attributes {
        node: NodeId,
    },
}

/// Decides about changes. A refusal is the error the guest sees.
pub(crate) trait Policy: Send + Sync {
    /// `nodes` tells the place of every node that `change` names.
    fn judge(&self, nodes: &NodeTable, change: &Change<'_>) -> io::Result<()>;
}

/// Allows whatever is not refused for every share.
#[derive(Debug)]
pub(crate) struct AllowAll;

impl Policy for AllowAll {
    fn judge(&self, _nodes: &NodeTable, _change: &Change<'_>) -> io::Result<()> {
        Ok(())
    }
}

/// Refuses every change. The guest's own root could undo a mount flag; this it cannot.
#[derive(Debug)]
pub(crate) struct ReadOnly;

impl Policy for ReadOnly {
    fn judge(&self, _nodes: &NodeTable, _change: &Change<'_>) -> io::Result<()> {
        Err(io::Error::from_raw_os_error(libc::EROFS))
    }
}

/// A name within one directory. A guest kernel never sends another one, but a guest is not to be
/// trusted: with `..` or a slash, a name would lead out of the shared folder.
pub(crate) fn check_name(name: &CStr) -> io::Result<()> {
    let bytes = name.to_bytes();
    if bytes.is_empty() || bytes == b"." || bytes == b".." || bytes.contains(&b'/') {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    Ok(())
}

/// The mode without the bits that would let a program on the host run as the checkout's owner.
pub(crate) fn without_set_id(mode: u32) -> u32 {
    mode & !(libc::S_ISUID | libc::S_ISGID)
}

/// Devices never come from the guest, not even where the host would let the owner make one.
pub(crate) fn check_kind(mode: u32) -> io::Result<()> {
    match mode & libc::S_IFMT {
        libc::S_IFCHR | libc::S_IFBLK => Err(io::Error::from_raw_os_error(libc::EPERM)),
        _ => Ok(()),
    }
}

/// A file without a name, made in the folder that is opened, would be nowhere in the table and in no quota; and
/// what is opened as a place only can be neither read nor written.
pub(crate) fn check_open(flags: u32) -> io::Result<()> {
    let refused = (libc::O_TMPFILE & !libc::O_DIRECTORY) | libc::O_PATH;
    if flags.cast_signed() & refused != 0 {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    Ok(())
}

/// Whiteouts are devices too.
pub(crate) fn check_rename(flags: u32) -> io::Result<()> {
    if flags & !(libc::RENAME_EXCHANGE | libc::RENAME_NOREPLACE) != 0 {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_within_their_directory() {
        for bad in [c"", c".", c"..", c"a/b", c"../x", c"/etc"] {
            assert!(check_name(bad).is_err(), "{bad:?}");
        }
        for good in [c"a", c"...", c"..a", c"a b", c"-"] {
            assert!(check_name(good).is_ok(), "{good:?}");
        }
    }

    #[test]
    fn set_id_bits_go_and_the_rest_stays() {
        assert_eq!(without_set_id(libc::S_IFREG | 0o7755), libc::S_IFREG | 0o1755);
    }

    #[test]
    fn devices_and_whiteouts_are_refused() {
        assert!(check_kind(libc::S_IFCHR | 0o600).is_err());
        assert!(check_kind(libc::S_IFBLK | 0o600).is_err());
        assert!(check_kind(libc::S_IFIFO | 0o600).is_ok());
        assert!(check_rename(libc::RENAME_WHITEOUT).is_err());
        assert!(check_rename(libc::RENAME_EXCHANGE).is_ok());
    }
}

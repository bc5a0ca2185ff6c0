//! Taking names away: removing, and replacing by a rename.

use std::ffi::CStr;
use std::io;

use virtiofsd::filesystem::Context;

use super::pinned::{found, nobody};
use super::usage::allocated;
use super::{ShareFs, pinned};
use crate::nodes::{Found, Identity, InnerId, NodeId};
use crate::policy::{self, Change};

/// A file that is about to lose a name. Keeps it open meanwhile, to see afterwards what is left of it.
pub(super) struct Named<'a> {
    share: &'a ShareFs,
    pub(super) found: Found,
    /// The node the guest knows it by, if it does.
    pub(super) node: Option<NodeId>,
}

impl Drop for Named<'_> {
    fn drop(&mut self) {
        self.share.inner.forget(nobody(), self.found.inner, 1);
    }
}

impl ShareFs {
    pub(super) fn remove(
        &self,
        ctx: Context,
        parent: NodeId,
        name: &CStr,
        directory: bool,
    ) -> io::Result<()> {
        policy::check_name(name)?;
        let dir = self.pin(ctx, parent)?;
        self.judge(&Change::Remove { dir: parent, name })?;
        let file = self.file_named(ctx, &dir, name)?;
        if directory {
            self.inner.rmdir(ctx, dir.inner, name)?;
        } else {
            self.inner.unlink(ctx, dir.inner, name)?;
        }
        self.lost_name(&file, parent, name);
        Ok(())
    }

    /// What `name` leads to now.
    pub(super) fn file_named(
        &self,
        ctx: Context,
        dir: &pinned::Pinned<'_>,
        name: &CStr,
    ) -> io::Result<Named<'_>> {
        let found = found(&self.inner.lookup(ctx, dir.inner, name)?);
        let node = match self.nodes().identify(dir.node, name, &found) {
            Identity::Known(node) | Identity::Same(node) => Some(node),
            Identity::Perhaps(_) | Identity::Stranger => None,
        };
        Ok(Named { share: self, found, node })
    }

    /// `file` was `name` in `parent` and is so no more.
    pub(super) fn lost_name(&self, file: &Named<'_>, parent: NodeId, name: &CStr) {
        let left = self.attributes(file.found.inner);
        let ended = file.found.kind == libc::S_IFDIR || left.as_ref().is_ok_and(|attr| attr.nlink == 0);
        let freed = left.map_or(0, |attr| allocated(&attr));
        let several = self.inner.is_several();
        if ended {
            let mut quota = self.quota();
            quota.inode_freed();
            if several {
                // Before the look at who has it open: whoever closes it meanwhile credits it, or this does.
                quota.hold(file.found.ino);
            }
        }
        let open = {
            let nodes = self.nodes();
            file.node.is_some_and(|node| nodes.is_open(node))
                || several && nodes.is_open_anywhere(file.found.ino)
        };
        // An open file keeps its space until it is closed.
        if ended && !open {
            let mut quota = self.quota();
            if !several || quota.let_go(file.found.ino) {
                quota.settle(0, -freed);
            }
        }
        if let Some(node) = file.node {
            let mut nodes = self.nodes();
            if ended {
                nodes.doom(node);
            } else {
                nodes.not_at(node, parent, name);
            }
            self.tidy(&mut nodes);
        }
    }

    /// When the guest goes away, its open files are closed with it.
    pub(super) fn credit_open_and_gone(&self) {
        let gone: Vec<InnerId> = self.nodes().open_and_gone();
        for inner in gone {
            let freed = self.attributes(inner).map_or(0, |attr| allocated(&attr));
            self.quota().settle(0, -freed);
        }
        self.quota().let_go_of_all();
        self.written().clear();
    }
}

//! Taking names away: removing, and replacing by a rename.

use std::ffi::CStr;
use std::io;

use virtiofsd::filesystem::Context;

use super::pinned::{found, nobody};
use super::usage::space;
use super::{ShareFs, pinned};
use crate::ledger::Space;
use crate::nodes::{FileId, Found, Identity, NodeId, NodeTable};
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

    /// `lost` was `name` in `parent` and is so no more.
    pub(super) fn lost_name(&self, lost: &Named<'_>, parent: NodeId, name: &CStr) {
        let left = self.attributes(lost.found.inner);
        let ended = lost.found.kind == libc::S_IFDIR || left.as_ref().is_ok_and(|attr| attr.nlink == 0);
        let mut nodes = self.nodes();
        if ended {
            let file = nodes.file_in(parent, lost.found.ino);
            self.doom(&mut nodes, lost, file);
            let open = nodes.is_open_anywhere(file);
            let nothing = Space { allocated: 0, size: None };
            // Before the table is let go: whoever closes it from now on finds that it is held.
            self.quota().ended(file, left.map_or(nothing, |attr| space(&attr)), open);
        } else if let Some(node) = lost.node {
            nodes.not_at(node, parent, name);
        }
        self.tidy(&mut nodes);
    }

    /// Closes whatever node is `file`, unless the guest has it open: folders that overlap, or a folder that is mounted
    /// in two places, show one file as several.
    fn doom(&self, nodes: &mut NodeTable, lost: &Named<'_>, file: FileId) {
        for (node, inner) in nodes.residents_of(file) {
            // Layers of one file system may number their files alike.
            let same = lost.node == Some(node)
                || lost.found.kind == libc::S_IFDIR
                || self.attributes(inner).is_ok_and(|attr| attr.nlink == 0);
            if self.is_single_file(nodes, node) {
                nodes.close_cached(node);
            } else if same {
                nodes.doom(node);
            }
        }
        if let Some(node) = lost.node {
            nodes.doom(node);
        }
    }

    /// When the guest goes away, its open files are closed with it.
    pub(super) fn credit_open_and_gone(&self) {
        let gone = self.nodes().open_and_gone();
        for (file, inner) in gone {
            self.credit_closed(file, inner);
        }
        self.quota().let_go_of_all();
    }
}

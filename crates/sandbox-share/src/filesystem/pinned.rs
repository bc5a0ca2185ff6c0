//! Holding a node's descriptor for the length of one request.

use std::ffi::CStr;
use std::io;

use virtiofsd::filesystem::{Context, Entry};
use virtiofsd::fuse::{ATTR_SUBMOUNT, Attr};

use super::{ShareFs, error};
use crate::nodes::{Found, Identity, InnerId, NodeId, NodeTable, ROOT, Step};

/// A node that has a descriptor and keeps it until this is dropped.
pub(super) struct Pinned<'a> {
    share: &'a ShareFs,
    pub(super) node: NodeId,
    pub(super) inner: InnerId,
}

impl Drop for Pinned<'_> {
    fn drop(&mut self) {
        let mut nodes = self.share.nodes();
        nodes.unpin(self.node);
        self.share.tidy(&mut nodes);
    }
}

/// Whether a new entry may be a file the guest already knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Novelty {
    /// It was looked up, or linked to.
    MayBeKnown,
    /// It was made just now, so a known file with its number is one that is gone.
    New,
    /// It was made just now, and is open already.
    NewAndOpen,
}

impl ShareFs {
    /// Makes sure that `node` has a descriptor, opening it again from where it was last seen.
    /// `ESTALE` when it is not there any more: the guest then looks its name up again.
    pub(super) fn pin(&self, ctx: Context, node: NodeId) -> io::Result<Pinned<'_>> {
        let mut nodes = self.nodes();
        self.refresh(&mut nodes, node)?;
        let result = self.make_resident(&mut nodes, ctx, node);
        let pinned = result.and_then(|_| nodes.pin(node).ok_or_else(stale));
        self.tidy(&mut nodes);
        drop(nodes);
        Ok(Pinned { share: self, node, inner: pinned? })
    }

    /// A single file is whatever its name leads to now: many programs save by putting a new file in the place
    /// of the old one.
    fn refresh(&self, nodes: &mut NodeTable, node: NodeId) -> io::Result<()> {
        let Some((_, name)) = nodes.place(node).filter(|_| self.is_single_file(nodes, node)) else {
            return Ok(());
        };
        let name = name.to_owned();
        let entry = self.inner.lookup(nobody(), ROOT, &name).map_err(|_| stale())?;
        self.replace(nodes, node, &found(&entry));
        Ok(())
    }

    fn replace(&self, nodes: &mut NodeTable, node: NodeId, found: &Found) {
        let old = nodes.file(node);
        if nodes.replace(node, found) && nodes.is_open(node) {
            self.quota().out_of_sight(old);
        }
    }

    pub(super) fn is_single_file(&self, nodes: &NodeTable, node: NodeId) -> bool {
        nodes.place(node).is_some_and(|(parent, name)| parent == ROOT && self.inner.is_single_file(name))
    }

    /// Tells the guest of `entry`, found as `name` in `parent`: replaces the inner number by ours. `ENFILE` for one file
    /// too many, unless it was made just now: then [`ShareFs::room_for_one_more`] has looked.
    pub(super) fn introduce(
        &self,
        ctx: Context,
        parent: NodeId,
        name: &CStr,
        entry: &mut Entry,
        novelty: Novelty,
    ) -> io::Result<()> {
        let found = found(entry);
        let mut nodes = self.nodes();
        // The number stays, whichever file the name leads to.
        if parent == ROOT
            && self.inner.is_single_file(name)
            && let Some(node) = nodes.child_of_root(name)
        {
            self.replace(&mut nodes, node, &found);
            nodes.remember(node);
            entry.inode = node;
            entry.attr.flags &= !ATTR_SUBMOUNT;
            self.tidy(&mut nodes);
            return Ok(());
        }
        let identity = match novelty {
            Novelty::New | Novelty::NewAndOpen => Identity::Stranger,
            Novelty::MayBeKnown => nodes.identify(parent, name, &found),
        };
        let known = match identity {
            Identity::Known(node) => {
                nodes.release(found.inner);
                Some(node)
            }
            Identity::Same(node) => nodes.settle(node, &found).is_ok().then_some(node),
            Identity::Perhaps(node) => {
                let same = self.make_resident(&mut nodes, ctx, node).is_ok_and(|inner| inner == found.inner);
                same.then(|| {
                    nodes.release(found.inner);
                    node
                })
            }
            Identity::Stranger => None,
        };
        let device =
            if known.is_none() && found.top { self.inner.device(found.inner).map(Some) } else { Ok(None) };
        let device = device.inspect_err(|_| {
            nodes.release(found.inner);
            self.tidy(&mut nodes);
        })?;
        let node = match known {
            Some(node) => {
                nodes.seen_at(node, parent, name);
                node
            }
            None if novelty == Novelty::MayBeKnown && nodes.is_full() => {
                nodes.release(found.inner);
                self.tidy(&mut nodes);
                return error(libc::ENFILE);
            }
            None => nodes.admit(parent, name, &found),
        };
        if let Some(device) = device {
            nodes.mounted(node, device);
        }
        nodes.remember(node);
        if novelty == Novelty::NewAndOpen {
            nodes.opened(node);
        }
        // Used just now: a pin and its end move it to the young end of the eviction queue.
        nodes.pin(node);
        self.tidy(&mut nodes);
        nodes.unpin(node);
        drop(nodes);
        entry.inode = node;
        // The folders below a root of ours are no file systems to the guest.
        if !self.knows_submounts() || self.inner.is_several() && parent == ROOT {
            entry.attr.flags &= !ATTR_SUBMOUNT;
        }
        Ok(())
    }

    /// Keeps the budget, and gives the inner references back that nothing needs.
    pub(super) fn tidy(&self, nodes: &mut NodeTable) {
        nodes.evict();
        for inner in nodes.take_released() {
            self.inner.forget(nobody(), inner, 1);
        }
    }

    pub(super) fn attributes(&self, inner: InnerId) -> io::Result<Attr> {
        self.inner.getattr(nobody(), inner, None).map(|(attr, _)| attr)
    }

    pub(super) fn make_resident(
        &self,
        nodes: &mut NodeTable,
        ctx: Context,
        node: NodeId,
    ) -> io::Result<InnerId> {
        let mut above = None;
        let mut result = error(libc::ESTALE);
        for id in nodes.path_to(node) {
            result = self.take_step(nodes, ctx, id);
            if result.is_err() {
                break;
            }
            // The parent of the next step must not be evicted to make room for it.
            nodes.pin(id);
            if let Some(parent) = above.replace(id) {
                nodes.unpin(parent);
            }
            self.tidy(nodes);
        }
        if let Some(last) = above {
            nodes.unpin(last);
        }
        result
    }

    fn take_step(&self, nodes: &mut NodeTable, ctx: Context, id: NodeId) -> io::Result<InnerId> {
        match nodes.step(id) {
            Step::Resident(inner) => Ok(inner),
            Step::Stale => error(libc::ESTALE),
            Step::LookUp { node, parent_inner, name, .. } => {
                let entry = self.inner.lookup(ctx, parent_inner, &name).map_err(|error| {
                    match error.raw_os_error() {
                        Some(libc::ENOENT | libc::ENOTDIR) => stale(),
                        _ => error,
                    }
                })?;
                let found = found(&entry);
                nodes.settle(node, &found).map_err(|_| {
                    nodes.release(found.inner);
                    stale()
                })
            }
        }
    }
}

/// What the pass-through file system's entry says of the file.
pub(super) fn found(entry: &Entry) -> Found {
    Found {
        inner: entry.inode,
        ino: entry.attr.ino,
        kind: entry.attr.mode & libc::S_IFMT,
        top: entry.attr.flags & ATTR_SUBMOUNT != 0,
    }
}

/// For the server's own look at a file: the pass-through file system asks nobody's rights but its own.
pub(super) fn nobody() -> Context {
    Context { uid: 0.into(), gid: 0.into(), pid: 0 }
}

fn stale() -> io::Error {
    io::Error::from_raw_os_error(libc::ESTALE)
}

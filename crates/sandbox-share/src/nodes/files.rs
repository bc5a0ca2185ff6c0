//! Which file a node is, where the guest knows one file by several: folders that are served side by side may overlap,
//! and a folder may be mounted in two places.

use serde::{Deserialize, Serialize};

use super::{InnerId, NodeId, NodeTable};

/// A mounted file system, by a number of ours: the host may number its devices anew while the guest sleeps.
pub(crate) type Volume = u32;

/// One file of the host, by whichever way the guest reaches it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct FileId {
    pub volume: Volume,
    pub ino: u64,
}

impl NodeTable {
    pub(crate) fn file(&self, node: NodeId) -> FileId {
        let ino = self.nodes.get(&node).map_or(0, |node| node.key.ino);
        self.file_in(node, ino)
    }

    /// The file with this number in the file system of `directory`.
    pub(crate) fn file_in(&self, directory: NodeId, ino: u64) -> FileId {
        FileId { volume: self.nodes.get(&directory).map_or(0, |node| node.volume), ino }
    }

    /// Notes which device the file system is on that has `top` at its top.
    pub(crate) fn mounted(&mut self, top: NodeId, device: u64) {
        let Some(node) = self.nodes.get_mut(&top) else { return };
        let next = self.next_volume;
        node.volume = *self.volumes.entry(device).or_insert(next);
        self.next_volume = self.next_volume.max(node.volume.saturating_add(1));
    }

    /// As [`NodeTable::mounted`], of one that was known before the guest slept, whichever device it is on now.
    pub(crate) fn mounted_again(&mut self, top: NodeId, device: u64) {
        let Some(node) = self.nodes.get(&top) else { return };
        self.volumes.insert(device, node.volume);
    }

    pub(crate) fn tops(&self) -> Vec<NodeId> {
        self.nodes.iter().filter(|(_, node)| node.key.top).map(|(id, _)| *id).collect()
    }

    /// All nodes that hold a descriptor of `file`.
    pub(crate) fn residents_of(&self, file: FileId) -> Vec<(NodeId, InnerId)> {
        let numbered = self.by_ino.range((file.ino, NodeId::MIN)..=(file.ino, NodeId::MAX));
        let nodes = numbered.map(|(_, node)| *node).filter(|node| self.file(*node) == file);
        nodes.filter_map(|node| Some((node, self.nodes.get(&node)?.inner?))).collect()
    }

    /// Whether the guest has `file` open, by whichever node.
    pub(crate) fn is_open_anywhere(&self, file: FileId) -> bool {
        let numbered = self.by_ino.range((file.ino, NodeId::MIN)..=(file.ino, NodeId::MAX));
        numbered.map(|(_, node)| *node).any(|node| self.is_open(node) && self.file(node) == file)
            || self.astray.iter().any(|(astray, _)| *astray == file)
    }

    /// Open files that no name leads to any more; those that are known by several nodes more than once.
    pub(crate) fn open_and_gone(&self) -> Vec<(FileId, InnerId)> {
        let gone = self.nodes.iter().filter(|(_, node)| node.gone && node.handles > 0);
        gone.filter_map(|(id, node)| Some((self.file(*id), node.inner?))).collect()
    }

    /// `id`, which is its name and not its file, becomes another one: its handles may be of the old one.
    pub(super) fn go_astray(&mut self, id: NodeId) {
        if self.is_open(id) {
            self.astray.insert((self.file(id), id));
        }
    }

    pub(super) fn hold(&mut self, id: NodeId, inner: InnerId, ino: u64) {
        self.by_inner.insert(inner, id);
        self.by_ino.insert((ino, id));
    }

    /// Gives the reference to `inner` back.
    pub(super) fn let_inner_go(&mut self, id: NodeId, inner: InnerId, ino: u64) {
        self.by_inner.remove(&inner);
        self.by_ino.remove(&(ino, id));
        self.released.push(inner);
    }
}

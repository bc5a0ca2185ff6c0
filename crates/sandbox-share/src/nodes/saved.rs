//! The table as another process takes it over, while the guest's memory is on the disk.
//!
//! Only what the guest has open keeps its descriptor on that way. Everything else is evicted first: it is
//! found again by its place when the guest asks for it, and accepted only if it is still the same file.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::{FileId, InnerId, Node, NodeId, NodeTable, ROOT, Volume};

/// What another process needs to go on with a table.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SavedNodes {
    nodes: HashMap<NodeId, Node>,
    next_id: NodeId,
    /// What the ledger has of volumes that no node is in any more is still theirs.
    next_volume: Volume,
    astray: HashSet<(FileId, NodeId)>,
}

impl NodeTable {
    /// Evicts all that may be evicted, whatever the budget.
    pub(crate) fn evict_all(&mut self) {
        let budget = std::mem::replace(&mut self.budget, 0);
        self.evict();
        self.budget = budget;
    }

    pub(crate) fn save(&self) -> SavedNodes {
        SavedNodes {
            nodes: self.nodes.clone(),
            next_id: self.next_id,
            next_volume: self.next_volume,
            astray: self.astray.clone(),
        }
    }

    /// Becomes the saved table. The pass-through file system has restored its inner inodes under their old
    /// numbers.
    pub(crate) fn restore(&mut self, saved: SavedNodes) {
        self.clear();
        self.volumes.clear();
        self.nodes = saved.nodes;
        self.by_inner.clear();
        self.by_ino.clear();
        self.next_id = saved.next_id;
        self.next_volume = saved.next_volume;
        self.astray = saved.astray;
        let mut ids: Vec<NodeId> = self.nodes.keys().copied().collect();
        ids.sort_unstable();
        for id in ids {
            let Some(node) = self.nodes.get_mut(&id) else { continue };
            // No request was on its way: the guest stood still.
            node.pins = 0;
            node.stamp = None;
            self.open_handles += node.handles;
            let (key, placed) = (node.key, node.place.is_some());
            match node.inner {
                Some(inner) => {
                    self.hold(id, inner, key.ino);
                    self.requeue(id);
                }
                None if placed => {
                    self.evicted.insert(key, id);
                }
                None => {}
            }
        }
    }

    /// Resident nodes, the root excepted, with what they must be: inode number and type.
    pub(crate) fn residents(&self) -> Vec<(NodeId, InnerId, u64, u32)> {
        let resident = self.nodes.iter().filter(|(id, _)| **id != ROOT);
        resident.filter_map(|(id, node)| Some((*id, node.inner?, node.key.ino, node.kind))).collect()
    }

    /// Another file is where `id` was: nothing may reach it under the old number any more. Its reference to
    /// the inner inode is given back.
    pub(crate) fn lose(&mut self, id: NodeId) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        if let Some(stamp) = node.stamp.take() {
            self.queue.remove(&stamp);
        }
        let ino = node.key.ino;
        if let Some(inner) = node.inner.take() {
            self.let_inner_go(id, inner, ino);
        }
        self.doom(id);
    }
}

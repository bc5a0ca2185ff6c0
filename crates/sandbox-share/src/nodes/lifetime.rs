//! How long a node lives, and what keeps it.

use super::{InnerId, NodeId, NodeTable, ROOT};

impl NodeTable {
    /// The guest was told of `id` once more.
    pub(crate) fn remember(&mut self, id: NodeId) {
        if let Some(node) = self.nodes.get_mut(&id) {
            node.lookups += 1;
        }
    }

    /// The guest forgot `count` of the times it was told of `id`.
    pub(crate) fn forget(&mut self, id: NodeId, count: u64) {
        if let Some(node) = self.nodes.get_mut(&id) {
            node.lookups = node.lookups.saturating_sub(count);
            self.drop_if_unused(id);
        }
    }

    /// Holds a resident node for one request; give it back with [`NodeTable::unpin`].
    pub(crate) fn pin(&mut self, id: NodeId) -> Option<InnerId> {
        let node = self.nodes.get_mut(&id)?;
        let inner = node.inner?;
        node.pins += 1;
        self.requeue(id);
        Some(inner)
    }

    pub(crate) fn unpin(&mut self, id: NodeId) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        node.pins = node.pins.saturating_sub(1);
        self.let_go(id);
    }

    /// The guest opened `id`.
    pub(crate) fn opened(&mut self, id: NodeId) {
        if let Some(node) = self.nodes.get_mut(&id) {
            node.handles += 1;
            self.open_handles += 1;
            self.requeue(id);
        }
    }

    /// The guest closed `id`. Whether it has it open no more.
    pub(crate) fn closed(&mut self, id: NodeId) -> bool {
        let Some(node) = self.nodes.get_mut(&id).filter(|node| node.handles > 0) else {
            return false;
        };
        node.handles -= 1;
        self.open_handles -= 1;
        let last = node.handles == 0;
        if last && !self.astray.is_empty() {
            self.astray.retain(|(_, by)| *by != id);
        }
        self.let_go(id);
        last
    }

    fn let_go(&mut self, id: NodeId) {
        self.requeue(id);
        self.drop_if_gone(id);
        self.drop_if_unused(id);
    }

    pub(super) fn adopt_child(&mut self, parent: NodeId) {
        if let Some(parent) = self.nodes.get_mut(&parent) {
            parent.children += 1;
        }
    }

    pub(super) fn lose_child(&mut self, parent: NodeId) {
        if let Some(node) = self.nodes.get_mut(&parent) {
            node.children = node.children.saturating_sub(1);
            self.drop_if_unused(parent);
        }
    }

    /// A file without a name gives its descriptor (and so its space on the disk) back once nobody
    /// has it open.
    pub(super) fn drop_if_gone(&mut self, id: NodeId) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        if !node.gone || node.handles > 0 || node.pins > 0 {
            return;
        }
        if let Some(stamp) = node.stamp.take() {
            self.queue.remove(&stamp);
        }
        let ino = node.key.ino;
        if let Some(inner) = node.inner.take() {
            self.let_inner_go(id, inner, ino);
        }
    }

    /// Removes `id`, and every ancestor that was kept only for it.
    pub(super) fn drop_if_unused(&mut self, id: NodeId) {
        let mut at = Some(id);
        while let Some(id) = at.take() {
            let Some(node) = self.nodes.get(&id) else { return };
            let held = node.lookups > 0 || node.children > 0 || node.handles > 0 || node.pins > 0;
            if id == ROOT || held {
                return;
            }
            let Some(node) = self.nodes.remove(&id) else { return };
            self.unlist_evicted(node.key, id);
            if let Some(stamp) = node.stamp {
                self.queue.remove(&stamp);
            }
            if let Some(inner) = node.inner {
                self.let_inner_go(id, inner, node.key.ino);
            }
            at = node.place.map(|place| place.parent);
            if let Some(parent) = at.and_then(|parent| self.nodes.get_mut(&parent)) {
                parent.children = parent.children.saturating_sub(1);
            }
        }
    }
}

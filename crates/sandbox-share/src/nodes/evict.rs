//! Closing what was not used for the longest time.

use super::{NodeId, NodeTable, ROOT};

impl NodeTable {
    /// Evicts until the budget is kept, or nothing is left that may be evicted. Pinned nodes, open
    /// ones and the root stay.
    pub(crate) fn evict(&mut self) {
        while self.descriptors() > self.budget {
            let Some((_, id)) = self.queue.pop_first() else { return };
            self.close_cached(id);
        }
    }

    /// Closes `id`, unless it is in use.
    pub(crate) fn close_cached(&mut self, id: NodeId) {
        let Some(node) = self.nodes.get_mut(&id).filter(|node| node.pins == 0 && node.handles == 0) else {
            return;
        };
        if let Some(stamp) = node.stamp.take() {
            self.queue.remove(&stamp);
        }
        let Some(inner) = node.inner.take() else { return };
        let (key, placed) = (node.key, node.place.is_some());
        self.let_inner_go(id, inner, key.ino);
        if placed {
            self.evicted.insert(key, id);
        }
    }

    /// Notes that `id` was used now, and whether it may be evicted.
    pub(super) fn requeue(&mut self, id: NodeId) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        if let Some(stamp) = node.stamp.take() {
            self.queue.remove(&stamp);
        }
        if id != ROOT && node.inner.is_some() && node.pins == 0 && node.handles == 0 {
            self.clock += 1;
            node.stamp = Some(self.clock);
            self.queue.insert(self.clock, id);
        }
    }
}

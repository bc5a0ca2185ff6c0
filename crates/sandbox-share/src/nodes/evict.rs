//! Closing what was not used for the longest time.

use super::{NodeId, NodeTable, ROOT};

impl NodeTable {
    /// Evicts until the budget is kept, or nothing is left that may be evicted. Pinned nodes, open
    /// ones and the root stay.
    pub(crate) fn evict(&mut self) {
        while self.descriptors() > self.budget {
            let Some((_, id)) = self.queue.pop_first() else { return };
            let Some(node) = self.nodes.get_mut(&id) else { continue };
            node.stamp = None;
            let Some(inner) = node.inner.take() else { continue };
            let (key, placed) = (node.key, node.place.is_some());
            self.by_inner.remove(&inner);
            self.released.push(inner);
            if placed {
                self.evicted.insert(key, id);
            }
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

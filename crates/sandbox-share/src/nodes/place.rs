//! Where nodes are found again: names given, moved and taken away.

use std::ffi::CStr;

use super::{NodeId, NodeTable, Place};

impl NodeTable {
    /// Notes that `id` was seen as `name` in `parent`.
    pub(crate) fn seen_at(&mut self, id: NodeId, parent: NodeId, name: &CStr) {
        let Some(node) = self.nodes.get(&id) else { return };
        let here = node.place.as_ref().is_some_and(|place| place.parent == parent && *place.name == *name);
        // A directory can be seen below itself when the host moved folders while the guest still
        // believed in the old order. The old place stays: if it is wrong, the node is stale.
        if node.gone || here || self.is_within(parent, id) {
            return;
        }
        self.set_place(id, Some(Place { parent, name: name.to_owned() }));
    }

    /// Notes that `name` in `parent` leads to `id` no more, though other names may.
    pub(crate) fn not_at(&mut self, id: NodeId, parent: NodeId, name: &CStr) {
        let here = self.place(id).is_some_and(|(at, called)| at == parent && called == name);
        if here {
            self.set_place(id, None);
        }
    }

    /// Notes that `id` lost its last name. It stays usable while it is open.
    pub(crate) fn doom(&mut self, id: NodeId) {
        self.set_place(id, None);
        if let Some(node) = self.nodes.get_mut(&id) {
            node.gone = true;
        }
        self.drop_if_gone(id);
        self.drop_if_unused(id);
    }

    /// Whether `id` is `ancestor` or below it.
    fn is_within(&self, id: NodeId, ancestor: NodeId) -> bool {
        let mut at = Some(id);
        while let Some(node) = at {
            if node == ancestor {
                return true;
            }
            at = self.place(node).map(|(parent, _)| parent);
        }
        false
    }

    fn set_place(&mut self, id: NodeId, place: Option<Place>) {
        let parent = place.as_ref().map(|place| place.parent);
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let (key, resident, placed) = (node.key, node.inner.is_some(), place.is_some());
        let old = std::mem::replace(&mut node.place, place);
        if !resident {
            if placed {
                self.evicted.insert(key, id);
            } else {
                self.unlist_evicted(key, id);
            }
        }
        if let Some(parent) = parent {
            self.adopt_child(parent);
        }
        if let Some(old) = old {
            self.lose_child(old.parent);
        }
    }
}

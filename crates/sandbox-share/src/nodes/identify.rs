//! From what a lookup found to the node the guest knows.

use std::ffi::CStr;

use super::{Found, Identity, InnerId, Key, Node, NodeId, NodeTable, Place, Step};

/// A file was found where another one was expected.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mismatch;

impl NodeTable {
    /// Which node `found`, looked up as `name` in `parent`, is.
    pub(crate) fn identify(&self, parent: NodeId, name: &CStr, found: &Found) -> Identity {
        if let Some(&node) = self.by_inner.get(&found.inner) {
            return Identity::Known(node);
        }
        let key = Key { mount: self.mount_below(parent), ino: found.ino, top: found.top };
        let Some((&id, node)) = self.evicted.get(&key).and_then(|id| self.nodes.get_key_value(id)) else {
            return Identity::Stranger;
        };
        if node.kind != found.kind {
            return Identity::Stranger;
        }
        match &node.place {
            Some(place) if place.parent == parent && *place.name == *name => Identity::Same(id),
            _ => Identity::Perhaps(id),
        }
    }

    /// Makes a node for `found`, and takes over the caller's reference to its inner inode.
    pub(crate) fn admit(&mut self, parent: NodeId, name: &CStr, found: &Found) -> NodeId {
        if let Some(&known) = self.by_inner.get(&found.inner) {
            self.release(found.inner);
            return known;
        }
        let id = self.next_id;
        self.next_id += 1;
        let key = Key { mount: self.mount_below(parent), ino: found.ino, top: found.top };
        let node = Node {
            key,
            volume: self.file_in(parent, found.ino).volume,
            kind: found.kind,
            place: Some(Place { parent, name: name.to_owned() }),
            inner: Some(found.inner),
            lookups: 0,
            children: 0,
            handles: 0,
            pins: 0,
            stamp: None,
            gone: false,
        };
        self.nodes.insert(id, node);
        self.hold(id, found.inner, found.ino);
        self.adopt_child(parent);
        self.requeue(id);
        id
    }

    /// Makes an evicted node resident again, and takes over the caller's reference, provided that
    /// `found` is the file it was. On a mismatch the reference stays the caller's.
    pub(crate) fn settle(&mut self, id: NodeId, found: &Found) -> Result<InnerId, Mismatch> {
        let taken = self.by_inner.contains_key(&found.inner);
        let node = self.nodes.get_mut(&id).ok_or(Mismatch)?;
        let same = node.key.ino == found.ino && node.key.top == found.top && node.kind == found.kind;
        if taken || !same || node.inner.is_some() || node.gone {
            return Err(Mismatch);
        }
        node.inner = Some(found.inner);
        let key = node.key;
        self.hold(id, found.inner, found.ino);
        self.unlist_evicted(key, id);
        self.requeue(id);
        Ok(found.inner)
    }

    /// Makes `id`, which is its name and not its file, what the name leads to now. Takes over the caller's
    /// reference. Whether it was another file before.
    pub(crate) fn replace(&mut self, id: NodeId, found: &Found) -> bool {
        if !self.nodes.contains_key(&id) || self.by_inner.contains_key(&found.inner) {
            self.release(found.inner);
            return false;
        }
        self.go_astray(id);
        let Some(node) = self.nodes.get_mut(&id) else { return false };
        let (key, old) = (node.key, node.inner.replace(found.inner));
        node.key.ino = found.ino;
        match old {
            Some(old) => self.let_inner_go(id, old, key.ino),
            None => self.unlist_evicted(key, id),
        }
        self.hold(id, found.inner, found.ino);
        self.requeue(id);
        old.is_some()
    }

    /// What must be looked up, from the nearest resident directory downwards, before `id` can be
    /// used. The steps are in the order to take them; each needs the one before.
    pub(crate) fn path_to(&self, id: NodeId) -> Vec<NodeId> {
        let mut path = Vec::new();
        let mut at = id;
        while let Some(node) = self.nodes.get(&at) {
            path.push(at);
            match &node.place {
                Some(place) if node.inner.is_none() => at = place.parent,
                _ => break,
            }
        }
        path.reverse();
        path
    }

    /// The one step that makes `id` resident, given that its parent is.
    pub(crate) fn step(&self, id: NodeId) -> Step {
        let Some(node) = self.nodes.get(&id) else { return Step::Stale };
        if let Some(inner) = node.inner {
            return Step::Resident(inner);
        }
        let Some(place) = &node.place else { return Step::Stale };
        let Some(parent_inner) = self.nodes.get(&place.parent).and_then(|parent| parent.inner) else {
            return Step::Stale;
        };
        Step::LookUp { node: id, parent: place.parent, parent_inner, name: place.name.clone() }
    }

    pub(super) fn unlist_evicted(&mut self, key: Key, id: NodeId) {
        if self.evicted.get(&key) == Some(&id) {
            self.evicted.remove(&key);
        }
    }
}

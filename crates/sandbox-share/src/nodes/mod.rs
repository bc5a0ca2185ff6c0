//! Which of the guest's files hold a descriptor here.
//!
//! The guest's kernel remembers files by numbers we give it, and may remember far more of them than
//! this process may have open. So the number (a *node*) and the open descriptor (the *inner* inode of
//! the pass-through file system) are two things:
//!
//! ```text
//!                admit                      evict
//!   (unknown) ─────────► resident ──────────────────────► evicted
//!                         │   ▲   ◄───────────────────────  │
//!                         │   │    settle: looked up again  │
//!                    doom │   └── pinned or open: never     │ forgotten by the guest
//!                         ▼       evicted                   ▼
//!                       gone ◄──────────────────────────  (removed)
//! ```
//!
//! Rules
//! - A node remembers its *place*: the parent node and the name it was last seen under. An evicted
//!   node is found again from there, and only accepted if its inode number and type are the same.
//! - Renaming a directory changes one place; its children point at the node, not at a path.
//! - A node lives while the guest remembers it, or a child's place points at it, or it is in use.
//! - A node whose last name the guest removed is *gone*: it keeps its descriptor only while it is open.
//! - Every resident node holds exactly one reference to its inner inode.
//!
//! Nothing here touches a file: whatever must be given back collects in [`NodeTable::take_released`].

mod evict;
mod files;
mod identify;
mod lifetime;
mod place;
mod saved;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::{CStr, CString};

use serde::{Deserialize, Serialize};

/// A number the guest knows a file by; never used twice.
pub(crate) type NodeId = u64;
/// A number the pass-through file system knows an open file by.
pub(crate) type InnerId = u64;

/// The shared folder itself, by agreement with the guest.
pub(crate) const ROOT: NodeId = 1;

/// The most nodes at once: a guest that forgets nothing takes no more of this process than that. One with a place
/// takes about 400 bytes and its name. A guest's kernel remembers a file in more than a kilobyte, and forgets the
/// oldest for want of memory: a walk through millions of files stays below.
const MOST: usize = 4_000_000;

/// Descriptors that making and opening one file takes.
const TO_MAKE: u64 = 4;

pub(crate) use files::{FileId, Volume};
pub(crate) use saved::SavedNodes;

/// What makes two files the same, as far as a pass-through entry tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Key {
    /// The node at the top of the mounted file system that holds the parent directory.
    mount: NodeId,
    ino: u64,
    /// Whether this is itself the top of another mounted file system.
    top: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Place {
    parent: NodeId,
    name: CString,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Node {
    key: Key,
    /// The mounted file system that it is in.
    volume: Volume,
    /// The type bits of its mode.
    kind: u32,
    /// `None` when no name is known to lead here.
    place: Option<Place>,
    inner: Option<InnerId>,
    /// How often the guest was told of it, less what it forgot.
    lookups: u64,
    /// Nodes whose place names this one as parent.
    children: u64,
    handles: u64,
    /// Requests that use it at this moment.
    pins: u64,
    /// Its position in the eviction queue.
    stamp: Option<u64>,
    gone: bool,
}

/// What a lookup in the pass-through file system found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    pub inner: InnerId,
    pub ino: u64,
    /// The type bits of its mode.
    pub kind: u32,
    /// Whether another file system is mounted there.
    pub top: bool,
}

/// Which node a found file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Identity {
    /// This resident one, for certain.
    Known(NodeId),
    /// This evicted one: same place, same number, same type.
    Same(NodeId),
    /// Perhaps this evicted one, under another name; certain only when its own place still leads to
    /// the same inner inode.
    Perhaps(NodeId),
    Stranger,
}

/// The next step towards using a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    Resident(InnerId),
    /// Look `name` up in `parent` (open as `parent_inner`), then settle `node` with what is found.
    LookUp {
        node: NodeId,
        parent: NodeId,
        parent_inner: InnerId,
        name: CString,
    },
    /// No name leads there any more.
    Stale,
}

/// The table of all nodes.
#[derive(Debug)]
pub(crate) struct NodeTable {
    nodes: HashMap<NodeId, Node>,
    by_inner: HashMap<InnerId, NodeId>,
    /// The same nodes by their inode numbers: one file may have several.
    by_ino: BTreeSet<(u64, NodeId)>,
    /// Evicted nodes that have a place.
    evicted: HashMap<Key, NodeId>,
    /// Resident nodes that nothing holds, the longest unused first.
    queue: BTreeMap<u64, NodeId>,
    released: Vec<InnerId>,
    next_id: NodeId,
    clock: u64,
    /// Resident nodes and open handles together.
    budget: u64,
    open_handles: u64,
    /// What a handle of a node may be of, where the node is another file by now.
    astray: HashSet<(FileId, NodeId)>,
    /// Which file system is on which of the host's devices: what is charged to its files outlives the guest.
    volumes: HashMap<u64, Volume>,
    next_volume: Volume,
    most: usize,
    /// Where the pass-through file system opens no more, counted as `budget`.
    hard: u64,
}

impl NodeTable {
    /// A table that knows the root only. Beyond `budget` descriptors, [`NodeTable::evict`] closes.
    pub(crate) fn new(budget: u64) -> Self {
        let mut table = Self {
            nodes: HashMap::new(),
            by_inner: HashMap::new(),
            by_ino: BTreeSet::new(),
            evicted: HashMap::new(),
            queue: BTreeMap::new(),
            released: Vec::new(),
            next_id: ROOT + 1,
            clock: 0,
            budget,
            open_handles: 0,
            astray: HashSet::new(),
            volumes: HashMap::new(),
            next_volume: 1,
            most: MOST,
            hard: u64::MAX,
        };
        table.add_root();
        table
    }

    /// Forgets everything but the root. Inner inodes are not given back: the caller has cleared
    /// the pass-through file system.
    pub(crate) fn clear(&mut self) {
        self.nodes.clear();
        self.by_inner.clear();
        self.by_ino.clear();
        self.evicted.clear();
        self.queue.clear();
        self.released.clear();
        self.open_handles = 0;
        self.astray.clear();
        self.add_root();
    }

    /// The inner inodes to give one reference back of, since the last call.
    pub(crate) fn take_released(&mut self) -> Vec<InnerId> {
        std::mem::take(&mut self.released)
    }

    /// Gives back one reference to `inner`.
    pub(crate) fn release(&mut self, inner: InnerId) {
        self.released.push(inner);
    }

    /// Descriptors in use: resident nodes and open handles.
    pub(crate) fn descriptors(&self) -> u64 {
        self.by_inner.len() as u64 + self.open_handles
    }

    /// The directory and name that `node` was last seen under.
    pub(crate) fn place(&self, node: NodeId) -> Option<(NodeId, &CStr)> {
        let place = self.nodes.get(&node)?.place.as_ref()?;
        Some((place.parent, &place.name))
    }

    /// The node that was last seen as `name` at the very top.
    pub(crate) fn child_of_root(&self, name: &CStr) -> Option<NodeId> {
        let here = |node: &Node| {
            node.place.as_ref().is_some_and(|place| place.parent == ROOT && *place.name == *name)
        };
        self.nodes.iter().find(|(_, node)| here(node)).map(|(id, _)| *id)
    }

    /// Whether a file that the guest does not know is one too many.
    pub(crate) fn is_full(&self) -> bool {
        self.nodes.len() >= self.most
    }

    pub(crate) fn set_hard(&mut self, hard: u64) {
        self.hard = hard;
    }

    /// Whether too much is open for a new file to be opened. It would be made all the same, and nobody would hear of it.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.descriptors().saturating_add(TO_MAKE) > self.hard
    }

    #[cfg(test)]
    pub(crate) fn set_most(&mut self, most: usize) {
        self.most = most;
    }

    #[cfg(test)]
    pub(crate) fn set_budget(&mut self, budget: u64) {
        self.budget = budget;
    }

    /// Whether the guest has `node` open.
    pub(crate) fn is_open(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(|node| node.handles > 0)
    }

    fn add_root(&mut self) {
        // The pass-through file system numbers its root as the guest does.
        let inner = ROOT;
        let root = Node {
            key: Key { mount: ROOT, ino: 0, top: true },
            volume: 0,
            kind: libc::S_IFDIR,
            place: None,
            inner: Some(inner),
            lookups: 0,
            children: 0,
            handles: 0,
            pins: 0,
            stamp: None,
            gone: false,
        };
        self.nodes.insert(ROOT, root);
        self.hold(ROOT, inner, 0);
    }

    /// The top of the mounted file system that the entries of `directory` are in.
    fn mount_below(&self, directory: NodeId) -> NodeId {
        self.nodes.get(&directory).map_or(ROOT, |node| if node.key.top { directory } else { node.key.mount })
    }
}

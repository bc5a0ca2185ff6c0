//! The table against a small imitation of a file system: whatever the guest and the host do, every
//! inner reference is accounted for, and a node never turns into another file.

use std::collections::HashMap;
use std::ffi::CString;

use proptest::prelude::*;

use super::*;

/// An imitation of the pass-through file system: names, inode numbers, reference counts.
#[derive(Default)]
struct Disk {
    names: HashMap<(u64, CString), u64>,
    directories: Vec<u64>,
    open: HashMap<InnerId, (u64, u64)>,
    next_ino: u64,
    next_inner: InnerId,
}

const ROOT_INO: u64 = 0;

impl Disk {
    fn new() -> Self {
        let mut disk = Self { next_ino: 1, next_inner: ROOT + 1, ..Self::default() };
        disk.directories.push(ROOT_INO);
        disk
    }

    fn ino_of(&self, inner: InnerId) -> u64 {
        if inner == ROOT { ROOT_INO } else { self.open[&inner].0 }
    }

    fn make(&mut self, dir: u64, name: &CStr, directory: bool) {
        let (ino, spot) = (self.next_ino, (dir, name.to_owned()));
        if self.names.contains_key(&spot) || !self.directories.contains(&dir) {
            return;
        }
        self.next_ino += 1;
        self.names.insert(spot, ino);
        if directory {
            self.directories.push(ino);
        }
    }

    fn kind(&self, ino: u64) -> u32 {
        if self.directories.contains(&ino) { libc::S_IFDIR } else { libc::S_IFREG }
    }

    fn look_up(&mut self, dir: InnerId, name: &CStr) -> Option<Found> {
        let ino = *self.names.get(&(self.ino_of(dir), name.to_owned()))?;
        let open = self.open.iter().find(|(_, (of, _))| *of == ino).map(|(inner, _)| *inner);
        let inner = open.unwrap_or_else(|| {
            self.next_inner += 1;
            self.next_inner
        });
        self.open.entry(inner).or_insert((ino, 0)).1 += 1;
        Some(Found { inner, ino, kind: self.kind(ino), top: false })
    }

    fn give_back(&mut self, inners: Vec<InnerId>) {
        for inner in inners {
            let (_, count) = self.open.get_mut(&inner).expect("given back more often than taken");
            *count -= 1;
            if *count == 0 {
                self.open.remove(&inner);
            }
        }
    }
}

struct World {
    disk: Disk,
    table: NodeTable,
    /// What the guest believes: how often it was told of a node, and which file that was.
    told: HashMap<NodeId, (u64, u64)>,
    open: Vec<NodeId>,
}

impl World {
    fn new(budget: u64) -> Self {
        let told = HashMap::from([(ROOT, (1, ROOT_INO))]);
        Self { disk: Disk::new(), table: NodeTable::new(budget), told, open: Vec::new() }
    }

    fn tidy(&mut self) {
        self.table.evict();
        self.disk.give_back(self.table.take_released());
    }

    fn resolve(&mut self, node: NodeId) -> Option<InnerId> {
        let mut result = None;
        for id in self.table.path_to(node) {
            result = match self.table.step(id) {
                Step::Resident(inner) => Some(inner),
                Step::Stale => None,
                Step::LookUp { node, parent_inner, name, .. } => {
                    let found = self.disk.look_up(parent_inner, &name)?;
                    let settled = self.table.settle(node, &found);
                    if settled.is_err() {
                        self.table.release(found.inner);
                    }
                    settled.ok()
                }
            };
            result?;
        }
        result
    }

    /// Resolves, pins, runs, unpins: what one request does.
    fn with<T>(&mut self, node: NodeId, run: impl FnOnce(&mut Self, InnerId) -> T) -> Option<T> {
        let resolved = self.resolve(node);
        let inner = resolved.and_then(|_| self.table.pin(node));
        self.tidy();
        let result = inner.map(|inner| run(self, inner));
        if inner.is_some() {
            self.table.unpin(node);
            self.tidy();
        }
        result
    }

    fn look_up(&mut self, dir: NodeId, name: &CStr) -> Option<NodeId> {
        self.with(dir, |world, dir_inner| {
            let found = world.disk.look_up(dir_inner, name)?;
            let known = match world.table.identify(dir, name, &found) {
                Identity::Known(node) => {
                    world.table.release(found.inner);
                    Some(node)
                }
                Identity::Same(node) => world.table.settle(node, &found).is_ok().then_some(node),
                Identity::Perhaps(node) => (world.resolve(node) == Some(found.inner)).then(|| {
                    world.table.release(found.inner);
                    node
                }),
                Identity::Stranger => None,
            };
            let node = match known {
                Some(node) => {
                    world.table.seen_at(node, dir, name);
                    node
                }
                None => world.table.admit(dir, name, &found),
            };
            world.table.remember(node);
            world.told.entry(node).or_insert((0, found.ino)).0 += 1;
            Some(node)
        })
        .flatten()
    }

    fn check(&self) {
        let table = &self.table;
        for (inner, (ino, count)) in &self.disk.open {
            let id = table.by_inner.get(inner).expect("an inner inode that no node holds");
            let node = &table.nodes[id];
            assert_eq!((node.inner, *count), (Some(*inner), 1), "one reference for one resident node");
            assert_eq!(node.key.ino, *ino, "a node is the file it was");
        }
        assert_eq!(table.by_inner.len(), self.disk.open.len() + 1, "and the root");
        for (node, (count, ino)) in &self.told {
            let known = &table.nodes[node];
            assert!(*node == ROOT || known.lookups == *count);
            assert!(*node == ROOT || known.key.ino == *ino, "a number the guest holds changed its file");
        }
        for (id, node) in &table.nodes {
            let children = table
                .nodes
                .values()
                .filter(|child| child.place.as_ref().is_some_and(|place| place.parent == *id));
            assert_eq!(node.children, children.count() as u64);
            assert!(node.handles == 0 || node.inner.is_some(), "open files stay");
            let queued = *id != ROOT && node.inner.is_some() && node.handles == 0;
            assert_eq!(node.stamp.is_some(), queued, "whatever may be evicted is in the queue");
            assert!(table.path_to(*id).len() <= table.nodes.len(), "places make no circle");
        }
        let must_stay =
            1 + table.open_handles + table.nodes.values().filter(|node| node.handles > 0).count() as u64;
        assert!(table.descriptors() <= table.budget.max(must_stay));
    }
}

#[derive(Debug, Clone, Copy)]
enum Deed {
    LookUp(usize, u8),
    Forget(usize),
    Make(usize, u8, bool),
    Remove(usize, u8),
    Rename((usize, u8), (usize, u8)),
    Open(usize),
    Close(usize),
    Use(usize),
    HostMoves((usize, u8), (usize, u8)),
    HostRemoves(usize, u8),
}

fn deed() -> impl Strategy<Value = Deed> {
    let spot = || (0_usize..32, 0_u8..5);
    prop_oneof![
        4 => spot().prop_map(|(at, name)| Deed::LookUp(at, name)),
        3 => (spot(), any::<bool>()).prop_map(|((at, name), directory)| Deed::Make(at, name, directory)),
        2 => (0_usize..32).prop_map(Deed::Forget),
        1 => spot().prop_map(|(at, name)| Deed::Remove(at, name)),
        2 => (spot(), spot()).prop_map(|(from, to)| Deed::Rename(from, to)),
        1 => (0_usize..32).prop_map(Deed::Open),
        1 => (0_usize..32).prop_map(Deed::Close),
        3 => (0_usize..32).prop_map(Deed::Use),
        1 => (spot(), spot()).prop_map(|(from, to)| Deed::HostMoves(from, to)),
        1 => spot().prop_map(|(at, name)| Deed::HostRemoves(at, name)),
    ]
}

fn name(number: u8) -> CString {
    CString::new(vec![b'a' + number]).unwrap()
}

impl World {
    fn told_of(&self, number: usize) -> NodeId {
        let mut nodes: Vec<_> = self.told.keys().copied().collect();
        nodes.sort_unstable();
        nodes[number % nodes.len()]
    }

    fn do_deed(&mut self, deed: Deed) {
        match deed {
            Deed::LookUp(at, called) => {
                self.look_up(self.told_of(at), &name(called));
            }
            Deed::Make(at, called, directory) => {
                let dir = self.told_of(at);
                let made = self.with(dir, |world, inner| {
                    let ino = world.disk.ino_of(inner);
                    world.disk.make(ino, &name(called), directory);
                });
                if made.is_some() {
                    self.look_up(dir, &name(called));
                }
            }
            Deed::Forget(at) => {
                let node = self.told_of(at);
                if node != ROOT && !self.open.contains(&node) {
                    let (count, _) = self.told.remove(&node).unwrap();
                    self.table.forget(node, count);
                    self.tidy();
                }
            }
            Deed::Remove(at, called) => self.remove(at, &name(called)),
            Deed::Rename((from, old), (to, new)) => self.rename((from, &name(old)), (to, &name(new))),
            Deed::Open(at) => {
                let node = self.told_of(at);
                if node != ROOT && self.with(node, |world, _| world.table.opened(node)).is_some() {
                    self.open.push(node);
                }
            }
            Deed::Close(at) => {
                if !self.open.is_empty() {
                    let node = self.open.swap_remove(at % self.open.len());
                    self.table.closed(node);
                    self.tidy();
                }
            }
            Deed::Use(at) => {
                let node = self.told_of(at);
                let ino = self.told[&node].1;
                self.with(node, |world, inner| assert_eq!(world.disk.ino_of(inner), ino));
            }
            Deed::HostMoves((from, old), (to, new)) => {
                let (from, to) = (self.directory(from), self.directory(to));
                self.host_moves(&(from, name(old)), (to, name(new)));
            }
            Deed::HostRemoves(at, called) => {
                let at = self.directory(at);
                self.disk.names.remove(&(at, name(called)));
            }
        }
        self.check();
    }

    fn directory(&self, number: usize) -> u64 {
        self.disk.directories[number % self.disk.directories.len()]
    }

    fn host_moves(&mut self, from: &(u64, CString), to: (u64, CString)) {
        let Some(&moved) = self.disk.names.get(from) else { return };
        if self.below(to.0, moved) {
            return;
        }
        self.disk.names.remove(from);
        self.disk.names.insert(to, moved);
    }

    fn below(&self, ino: u64, ancestor: u64) -> bool {
        if ino == ancestor {
            return true;
        }
        let above = self.disk.names.iter().find(|(_, child)| **child == ino).map(|((dir, _), _)| *dir);
        above.is_some_and(|dir| self.below(dir, ancestor))
    }

    fn remove(&mut self, at: usize, called: &CStr) {
        let dir = self.told_of(at);
        self.with(dir, |world, inner| {
            let Some(found) = world.disk.look_up(inner, called) else { return };
            let spot = (world.disk.ino_of(inner), called.to_owned());
            world.disk.names.remove(&spot);
            if let Identity::Known(node) | Identity::Same(node) = world.table.identify(dir, called, &found) {
                world.table.doom(node);
            }
            world.table.release(found.inner);
        });
    }

    fn rename(&mut self, (from, old): (usize, &CStr), (to, new): (usize, &CStr)) {
        let (from, to) = (self.told_of(from), self.told_of(to));
        self.with(from, |world, from_inner| {
            world.with(to, |world, to_inner| {
                let (from_ino, to_ino) = (world.disk.ino_of(from_inner), world.disk.ino_of(to_inner));
                let Some(source) = world.disk.look_up(from_inner, old) else { return };
                let source_node = world.table.identify(from, old, &source);
                let target = world.disk.look_up(to_inner, new);
                let target_node = target.map(|target| world.table.identify(to, new, &target));
                let fits = world.disk.directories.contains(&to_ino) && !world.below(to_ino, source.ino);
                if fits && target.is_none_or(|target| target.ino != source.ino) {
                    world.host_moves(&(from_ino, old.to_owned()), (to_ino, new.to_owned()));
                    if let Some(Identity::Known(node) | Identity::Same(node)) = target_node {
                        world.table.doom(node);
                    }
                    if let Identity::Known(node) | Identity::Same(node) = source_node {
                        world.table.seen_at(node, to, new);
                    }
                }
                world.table.release(source.inner);
                if let Some(target) = target {
                    world.table.release(target.inner);
                }
            });
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn references_and_identities_hold(budget in 2_u64..12, deeds in prop::collection::vec(deed(), 1..120)) {
        let mut world = World::new(budget);
        for deed in deeds {
            world.do_deed(deed);
        }
        // In the end the guest closes and forgets everything, and nothing may be left.
        for node in std::mem::take(&mut world.open) {
            world.table.closed(node);
        }
        for (node, (count, _)) in std::mem::take(&mut world.told) {
            world.table.forget(node, count);
        }
        world.tidy();
        prop_assert_eq!(world.table.nodes.len(), 1);
        prop_assert!(world.disk.open.is_empty());
    }
}

fn world_with(files: &[&CStr], budget: u64) -> (World, Vec<NodeId>) {
    let mut world = World::new(budget);
    let nodes = files
        .iter()
        .map(|file| {
            world.disk.make(ROOT_INO, file, false);
            world.look_up(ROOT, file).unwrap()
        })
        .collect();
    (world, nodes)
}

#[test]
fn the_longest_unused_goes_first_and_comes_back() {
    let (mut world, nodes) = world_with(&[c"a", c"b", c"c"], 3);
    let resident = |world: &World, node| matches!(world.table.step(node), Step::Resident(_));
    assert!(!resident(&world, nodes[0]) && resident(&world, nodes[1]) && resident(&world, nodes[2]));
    assert!(world.resolve(nodes[0]).is_some());
    world.tidy();
    assert!(resident(&world, nodes[0]) && !resident(&world, nodes[1]));
}

#[test]
fn a_file_that_was_replaced_while_evicted_is_stale() {
    let (mut world, nodes) = world_with(&[c"a", c"b", c"c"], 3);
    world.disk.names.remove(&(ROOT_INO, c"a".to_owned()));
    world.disk.make(ROOT_INO, c"a", false);
    assert_eq!(world.resolve(nodes[0]), None);
    let again = world.look_up(ROOT, c"a").unwrap();
    assert_ne!(again, nodes[0]);
}

#[test]
fn a_second_name_of_an_evicted_file_is_the_same_node() {
    let (mut world, nodes) = world_with(&[c"a", c"b", c"c"], 3);
    let ino = world.told[&nodes[0]].1;
    world.disk.names.insert((ROOT_INO, c"link".to_owned()), ino);
    assert_eq!(world.look_up(ROOT, c"link"), Some(nodes[0]));
}

#[test]
fn an_equal_number_on_another_file_is_not_taken_for_a_second_name() {
    let (mut world, nodes) = world_with(&[c"a", c"b", c"c"], 3);
    let Found { ino, kind, .. } = world.disk.look_up(ROOT, c"a").unwrap();
    let twin = Found { inner: 9_999, ino, kind, top: false };
    assert_eq!(world.table.identify(ROOT, c"twin", &twin), Identity::Perhaps(nodes[0]));
    // Its own place leads to another inner inode, so it is not the twin.
    assert_ne!(world.resolve(nodes[0]), Some(twin.inner));
}

#[test]
fn numbers_repeat_across_mounted_file_systems() {
    let mut table = NodeTable::new(100);
    let mount = Found { inner: 10, ino: 5, kind: libc::S_IFDIR, top: true };
    let top = table.admit(ROOT, c"mnt", &mount);
    let outside = table.admit(ROOT, c"x", &Found { inner: 11, ino: 7, kind: libc::S_IFREG, top: false });
    table.budget = 0;
    table.evict();
    let inside = Found { inner: 12, ino: 7, kind: libc::S_IFREG, top: false };
    assert_eq!(table.identify(top, c"x", &inside), Identity::Stranger);
    assert_eq!(table.identify(ROOT, c"x", &inside), Identity::Same(outside));
}

#[test]
fn open_files_are_never_evicted() {
    let (mut world, nodes) = world_with(&[c"a"], 100);
    world.table.opened(nodes[0]);
    world.table.budget = 0;
    world.tidy();
    assert!(matches!(world.table.step(nodes[0]), Step::Resident(_)));
    world.table.closed(nodes[0]);
    world.tidy();
    assert!(!matches!(world.table.step(nodes[0]), Step::Resident(_)));
}

#[test]
fn files_with_one_number_in_two_file_systems_are_two() {
    let mut table = NodeTable::new(100);
    let tops = [(10, 1_u64), (11, 2), (12, 1)].map(|(inner, device)| {
        let name = CString::new(inner.to_string()).unwrap();
        let top = table.admit(ROOT, &name, &Found { inner, ino: inner, kind: libc::S_IFDIR, top: true });
        table.mounted(top, device);
        top
    });
    let files = [20, 21, 22].map(|inner| Found { inner, ino: 7, kind: libc::S_IFREG, top: false });
    let [here, there, again] = [0, 1, 2].map(|at| table.admit(tops[at], c"x", &files[at]));
    assert_eq!(table.file(here), table.file(again));
    assert_ne!(table.file(here), table.file(there));
    table.opened(there);
    assert!(!table.is_open_anywhere(table.file(here)));
    table.opened(again);
    assert!(table.is_open_anywhere(table.file(here)));
    assert_eq!(table.residents_of(table.file(here)), vec![(here, 20), (again, 22)]);
    table.doom(here);
    assert_eq!(table.residents_of(table.file(again)), vec![(again, 22)]);
}

#[test]
fn what_is_mounted_after_a_sleep_is_none_of_what_was_forgotten_before() {
    let mut table = NodeTable::new(100);
    let mount = |table: &mut NodeTable, inner: InnerId, device: u64| {
        let found = Found { inner, ino: inner, kind: libc::S_IFDIR, top: true };
        let top = table.admit(ROOT, &CString::new(inner.to_string()).unwrap(), &found);
        table.remember(top);
        table.mounted(top, device);
        (top, table.file(top).volume)
    };
    let (top, before) = mount(&mut table, 10, 1);
    table.forget(top, 1);
    table.evict_all();
    let mut next = NodeTable::new(100);
    next.restore(table.save());
    assert!(next.tops().iter().all(|top| *top == ROOT), "it is not known any more");
    assert_ne!(mount(&mut next, 11, 2).1, before);
}

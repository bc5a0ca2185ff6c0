//! One server writes its state down, another takes it back: what the guest had open goes on.

use std::io::{Seek, SeekFrom};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use virtiofsd::filesystem::SerializableFileSystem;

use super::*;

impl Guest {
    fn state(&self) -> File {
        self.share.prepare_serialization(Arc::new(AtomicBool::new(false)));
        let mut state = tempfile::tempfile().unwrap();
        self.share.serialize(state.try_clone().unwrap()).unwrap();
        state.seek(SeekFrom::Start(0)).unwrap();
        state
    }

    /// The same guest on a new server. `meanwhile` is what the host does between the two.
    fn sleep(self, quota_bytes: u64, meanwhile: impl FnOnce(&TempDir)) -> Self {
        let state = self.state();
        let Self { share, dir } = self;
        drop(share);
        meanwhile(&dir);
        let share = ShareFs::new(pass_through(&dir, PLENTY), Box::new(AllowAll), PLENTY, quota_bytes);
        share.deserialize_and_apply(state).unwrap();
        Self { share, dir }
    }
}

#[test]
fn open_files_go_on_and_host_edits_are_seen() {
    let guest = Guest::with(PLENTY, 0);
    let folder = guest.mkdir(ROOT, "folder").unwrap();
    let (node, handle) = guest.create(folder, "open").unwrap();
    guest.write(node, handle, 0, b"before").unwrap();
    let closed = guest.make("closed", b"one");
    let guest = guest.sleep(0, |dir| std::fs::write(dir.path().join("closed"), "two").unwrap());
    guest.write(node, handle, 6, b" and after").unwrap();
    assert_eq!(guest.read(node, handle).unwrap(), b"before and after");
    assert_eq!(std::fs::read(guest.host("folder/open")).unwrap(), b"before and after");
    assert_eq!(guest.attributes(closed).unwrap().size, 3);
    assert_eq!(guest.contents("closed"), b"two");
    assert_eq!(guest.node("closed"), closed, "the guest's number still means the same file");
    guest.close(node, handle);
    assert_eq!(guest.contents("folder/open"), b"before and after");
    let fresh = guest.make("fresh", b"");
    assert!(fresh > closed, "numbers are never used twice");
}

#[test]
fn only_what_is_open_holds_a_descriptor_on_the_way() {
    let guest = Guest::with(PLENTY, 0);
    for index in 0..50 {
        guest.make(&format!("file-{index}"), b"x");
    }
    let (node, _) = guest.create(ROOT, "open").unwrap();
    let guest = guest.sleep(0, |_| {});
    // The root, the open file, and its handle.
    assert_eq!(guest.descriptors(), 3);
    assert_eq!(guest.attributes(node).unwrap().size, 0);
    assert_eq!(guest.contents("file-7"), b"x");
}

#[test]
fn another_file_in_the_place_of_an_open_one_is_not_it() {
    let guest = Guest::with(PLENTY, 0);
    let (replaced, first) = guest.create(ROOT, "replaced").unwrap();
    let (removed, second) = guest.create(ROOT, "removed").unwrap();
    let (kept, third) = guest.create(ROOT, "kept").unwrap();
    let guest = guest.sleep(0, |dir| {
        std::fs::write(dir.path().join("new"), "of the host").unwrap();
        std::fs::rename(dir.path().join("new"), dir.path().join("replaced")).unwrap();
        std::fs::remove_file(dir.path().join("removed")).unwrap();
    });
    assert_eq!(number(guest.write(replaced, first, 0, b"lost")), Some(libc::ESTALE));
    assert_eq!(number(guest.write(removed, second, 0, b"lost")), Some(libc::ESTALE));
    assert_eq!(guest.write(kept, third, 0, b"here").unwrap(), 4);
    assert_eq!(guest.contents("replaced"), b"of the host");
    assert_eq!(number(guest.try_node("removed")), Some(libc::ENOENT));
}

#[test]
fn the_quota_counts_on() {
    let guest = Guest::with(PLENTY, 64 << 10);
    guest.make("most", &vec![1; 48 << 10]);
    let guest = guest.sleep(64 << 10, |_| {});
    let (node, handle) = guest.create(ROOT, "more").unwrap();
    assert_eq!(number(guest.write(node, handle, 0, &vec![1; 32 << 10])), Some(libc::ENOSPC));
    guest.write(node, handle, 0, &vec![1; 8 << 10]).unwrap();
    guest.unlink(ROOT, "most").unwrap();
    guest.write(node, handle, 0, &vec![1; 32 << 10]).unwrap();
}

#[test]
fn a_damaged_state_is_refused() {
    let guest = Guest::with(PLENTY, 0);
    guest.make("file", b"x");
    let mut state = guest.state();
    let length = state.seek(SeekFrom::End(0)).unwrap();
    assert!(length > 40);
    state.set_len(20).unwrap();
    state.seek(SeekFrom::Start(0)).unwrap();
    let next = ShareFs::new(pass_through(&guest.dir, PLENTY), Box::new(AllowAll), PLENTY, 0);
    assert!(next.deserialize_and_apply(state).is_err());
}

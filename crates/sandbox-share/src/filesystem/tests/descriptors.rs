//! A guest that remembers more files than the server may open.

use std::fs;

use super::*;

/// Every so manieth file says which one it is.
const TOLD_APART: usize = 97;

fn fill(guest: &Guest, folders: usize, files: usize) {
    for folder in 0..folders {
        let folder = guest.host(&format!("d{folder}"));
        fs::create_dir(&folder).unwrap();
        for file in 0..files {
            // Most are empty: on a memory disk each other one takes a page.
            let text = if file % TOLD_APART == 0 { file.to_string() } else { String::new() };
            fs::write(folder.join(format!("f{file}")), text).unwrap();
        }
    }
}

/// Lists everything below the root; how many entries, and the node of each.
fn walk(guest: &Guest) -> io::Result<Vec<(String, u64)>> {
    let mut all = Vec::new();
    for (name, folder) in guest.list(ROOT)? {
        for (file, node) in guest.list(folder)? {
            all.push((format!("{name}/{file}"), node));
        }
        all.push((name, folder));
    }
    Ok(all)
}

#[test]
fn without_eviction_a_walk_runs_out_of_descriptors() {
    let guest = Guest::limited(u64::MAX, 500, 0);
    fill(&guest, 2, 400);
    assert_eq!(number(walk(&guest)), Some(libc::ENFILE));
}

#[test]
fn with_eviction_the_same_walk_ends_well() {
    let guest = Guest::limited(300, 500, 0);
    fill(&guest, 2, 400);
    assert_eq!(walk(&guest).unwrap().len(), 802);
    assert!(guest.descriptors() <= 300);
}

#[test]
fn sixty_thousand_files_fit_into_three_thousand_descriptors() {
    // In memory: a busy disk takes minutes to make and remove so many files.
    let guest = Guest::on(tempfile::tempdir_in("/dev/shm").unwrap(), 3_000, 4_000, 0);
    fill(&guest, 60, 1_000);
    let first = walk(&guest).unwrap();
    assert_eq!(first.len(), 60_060);
    assert!(guest.descriptors() <= 3_000);
    // The guest remembers all of them: each is still the same file, opened again from its place.
    let second = walk(&guest).unwrap();
    assert_eq!(first, second);
    let mut read = 0;
    for (path, node) in &first {
        let Some((_, number)) = path.split_once("/f") else { continue };
        if number.parse::<usize>().unwrap() % TOLD_APART == 0 {
            let handle = guest.open(*node, libc::O_RDONLY).unwrap();
            assert_eq!(guest.read(*node, handle).unwrap(), number.as_bytes(), "{path}");
            guest.close(*node, handle);
            read += 1;
        }
    }
    assert_eq!(read, 60 * 11);
    assert!(guest.descriptors() <= 3_000);
}

#[test]
fn what_the_guest_forgets_is_closed() {
    let guest = Guest::with(PLENTY, 0);
    fill(&guest, 1, 100);
    let mut told = walk(&guest).unwrap();
    assert_eq!(guest.descriptors(), 102);
    // A guest may forget a folder before the files in it.
    told.reverse();
    for (_, node) in told {
        guest.share.forget(context(), node, 1);
    }
    assert_eq!(guest.descriptors(), 1);
}

#[test]
fn open_files_outlive_eviction() {
    let guest = Guest::with(PLENTY, 0);
    let node = guest.make("a", b"one");
    let handle = guest.open(node, libc::O_RDWR).unwrap();
    guest.evict_all();
    guest.write(node, handle, 0, b"two").unwrap();
    guest.close(node, handle);
    assert_eq!(fs::read(guest.host("a")).unwrap(), b"two");
}

#[test]
fn a_deep_folder_comes_back_from_the_root() {
    let guest = Guest::with(PLENTY, 0);
    let mut at = ROOT;
    for _ in 0..40 {
        at = guest.mkdir(at, "deeper").unwrap();
    }
    let (node, handle) = guest.create(at, "leaf").unwrap();
    guest.close(node, handle);
    guest.evict_all();
    assert_eq!(guest.descriptors(), 1);
    assert_eq!(guest.attributes(node).unwrap().size, 0);
    // And with less room than the way is long.
    guest.evict_all();
    guest.share.nodes().set_budget(4);
    assert!(guest.attributes(node).is_ok());
    assert!(guest.descriptors() <= 4);
}

#[test]
fn a_new_guest_starts_with_an_empty_table() {
    let guest = Guest::with(PLENTY, 0);
    let old = guest.make("a", b"x");
    guest.share.init(FsOptions::all()).unwrap();
    assert_eq!(guest.descriptors(), 1);
    assert_eq!(number(guest.attributes(old)), Some(libc::ESTALE));
    assert_ne!(guest.node("a"), old);
}

#[test]
fn a_guest_that_forgets_nothing_is_told_of_so_many_files() {
    let guest = Guest::with(PLENTY, 0);
    for number in 0..20 {
        fs::write(guest.host(&format!("f{number}")), "text").unwrap();
    }
    // The root is one of them.
    guest.share.nodes().set_most(11);
    let known: Vec<u64> = (0..10).map(|number| guest.node(&format!("f{number}"))).collect();
    assert_eq!(number(guest.look_up(ROOT, "f10")), Some(libc::ENFILE));
    assert_eq!(number(guest.create(ROOT, "new")), Some(libc::ENFILE));
    assert!(!guest.host("new").exists());
    let before = guest.descriptors();
    assert_eq!(number(guest.look_up(ROOT, "f11")), Some(libc::ENFILE));
    assert_eq!(guest.descriptors(), before, "what is refused is closed");
    // What it knows it can use, and see again; what it forgets makes room.
    assert_eq!(guest.node("f3"), known[3]);
    assert_eq!(guest.contents("f4"), b"text");
    guest.share.forget(context(), known[0], 1);
    assert_eq!(guest.contents("f10"), b"text");
    assert_eq!(number(guest.look_up(ROOT, "f0")), Some(libc::ENFILE));
}

//! Folders that overlap: one file is known as several, and is charged and credited as one.

mod attack;

use std::collections::HashMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use super::*;
use crate::process::walls::drop_capabilities;

impl Several {
    /// `0` and `1` are the same folder, and `2` the file `one` of it.
    fn overlapping(quota_bytes: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("one"), "first").unwrap();
        let root = |file: Option<CString>| Root {
            fs: pass_through(&dir, PLENTY),
            dir: File::open(dir.path()).unwrap().into(),
            file,
            readonly: false,
        };
        let roots = Roots::several(vec![root(None), root(None), root(Some(c"one".into()))]).unwrap();
        let share = ShareFs::new(roots, Box::new(AllowAll), PLENTY, quota_bytes);
        share.init(FsOptions::all()).unwrap();
        Self { share, dirs: vec![dir] }
    }

    fn make(&self, folder: u64, name: &str, bytes: u64) -> (u64, u64) {
        let (flags, mode) = ((libc::O_RDWR | libc::O_CREAT).cast_unsigned(), libc::S_IFREG | 0o644);
        let created =
            self.share.create(context(), folder, &c(name), mode, false, flags, 0, Extensions::default());
        let (entry, handle, _) = created.unwrap();
        let handle = handle.unwrap();
        self.write_at(entry.inode, handle, 0, &vec![7; usize::try_from(bytes).unwrap()]).unwrap();
        (entry.inode, handle)
    }

    fn folders(&self) -> [u64; 2] {
        ["0", "1"].map(|name| self.look_up(ROOT, name).unwrap())
    }

    fn resize(&self, node: u64, size: u64) {
        let attr = SetattrIn { size, ..SetattrIn::default() };
        self.share.setattr(context(), node, attr, None, SetattrValid::SIZE).unwrap();
    }

    /// What the folder's files take on the disk, those without a name that this process has open included.
    fn on_disk(&self) -> u64 {
        let dir = self.dirs[0].path();
        let open = fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().path());
        let open = open.filter(|path| fs::read_link(path).is_ok_and(|link| link.starts_with(dir)));
        let named = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
        let files = open.chain(named).filter_map(|path| fs::metadata(path).ok());
        let sizes: HashMap<u64, u64> =
            files.filter(fs::Metadata::is_file).map(|file| (file.ino(), file.blocks() * 512)).collect();
        sizes.values().sum()
    }
}

#[test]
fn space_that_is_open_by_another_root_is_not_given_back() {
    let several = Several::overlapping(8 * MIB);
    let [first, second] = ["0", "1"].map(|name| several.look_up(ROOT, name).unwrap());
    let make = |name: &str| several.make(first, name, 3 * MIB);
    let whole = several.left();
    let (node, handle) = make("held");
    let before = several.left();
    several.share.unlink(context(), second, c"held").unwrap();
    assert_eq!(several.left(), before, "it is on the disk all the same");
    several.close(node, handle).unwrap();
    assert!(several.left().abs_diff(whole) < MIB, "closed, it is not");
    assert_eq!(number(several.share.getattr(context(), node, None)), Some(libc::ESTALE));
    // Open by both, it is given back by whoever closes it last, and once.
    let (node, handle) = make("both");
    let there = several.look_up(second, "both").unwrap();
    let reading = several.open(there, libc::O_RDONLY).unwrap();
    let before = several.left();
    several.share.unlink(context(), second, c"both").unwrap();
    several.close(there, reading).unwrap();
    assert_eq!(several.left(), before, "the other one has it open");
    several.close(node, handle).unwrap();
    assert!(several.left().abs_diff(whole) < MIB);
    // Nor is it given back again by one that knows it by no name any more.
    let (node, handle) = make("named");
    several.close(node, handle).unwrap();
    several.share.link(context(), node, first, c"again").unwrap();
    several.share.unlink(context(), first, c"again").unwrap();
    several.share.unlink(context(), second, c"named").unwrap();
    assert!(several.left().abs_diff(whole) < MIB);
    assert_eq!(number(several.open(node, libc::O_RDONLY)), Some(libc::ESTALE));
    assert!(several.left().abs_diff(whole) < MIB);
    // The door: what nobody has open.
    let before = several.left();
    let (node, handle) = make("closed");
    several.close(node, handle).unwrap();
    assert!(several.left() <= before - 3 * MIB);
    several.share.unlink(context(), second, c"closed").unwrap();
    assert!(several.left().abs_diff(before) < MIB);
}

#[test]
fn what_one_root_removes_no_other_keeps_on_the_disk() {
    let several = Several::overlapping(8 * MIB);
    let [first, second] = several.folders();
    for round in 0..8 {
        let name = format!("file-{round}");
        let (node, handle) = several.make(first, &name, 3 * MIB);
        several.close(node, handle).unwrap();
        // Either way of taking its last name away.
        if round % 2 == 0 {
            several.share.unlink(context(), second, &c(&name)).unwrap();
        } else {
            let (other, handle) = several.make(second, "other", 0);
            several.close(other, handle).unwrap();
            several.share.rename(context(), second, c"other", second, &c(&name), 0).unwrap();
        }
        assert!(several.on_disk() < MIB, "{} in round {round}", several.on_disk());
        assert!(several.left().abs_diff(8 * MIB) < MIB);
    }
}

#[test]
fn the_name_of_a_single_file_outlives_the_file() {
    let several = Several::overlapping(8 * MIB);
    let [first, _] = several.folders();
    let single = several.look_up(ROOT, "2").unwrap();
    let handle = several.open(single, libc::O_RDWR).unwrap();
    several.write_at(single, handle, 0, &vec![7; usize::try_from(3 * MIB).unwrap()]).unwrap();
    several.close(single, handle).unwrap();
    several.share.unlink(context(), first, c"one").unwrap();
    assert!(several.on_disk() < MIB);
    assert!(several.left().abs_diff(8 * MIB) < MIB);
    several.replace(0, "second");
    assert_eq!(several.look_up(ROOT, "2").unwrap(), single, "to the guest it is the same file");
    let handle = several.open(single, libc::O_RDONLY).unwrap();
    assert_eq!(several.read(single, handle).unwrap(), "second");
}

#[test]
fn what_one_root_cuts_of_what_another_wrote_is_credited_once() {
    for opening in [false, true] {
        let several = Several::overlapping(8 * MIB);
        let [first, second] = several.folders();
        let (node, handle) = several.make(first, "file", 3 * MIB);
        let there = several.look_up(second, "file").unwrap();
        if opening {
            let cutting = several.open(there, libc::O_WRONLY | libc::O_TRUNC).unwrap();
            several.close(there, cutting).unwrap();
        } else {
            several.resize(there, 0);
        }
        assert!(several.left().abs_diff(8 * MIB) < MIB);
        several.close(node, handle).unwrap();
        assert!(several.left() <= 8 * MIB, "{}", several.left());
        several.share.unlink(context(), first, c"file").unwrap();
        assert!(several.left() <= 8 * MIB, "{}", several.left());
    }
}

#[test]
fn a_guest_that_goes_away_is_credited_once_for_what_two_roots_had_open() {
    let several = Several::overlapping(8 * MIB);
    let [first, second] = several.folders();
    several.make(first, "file", 3 * MIB);
    let there = several.look_up(second, "file").unwrap();
    several.open(there, libc::O_RDONLY).unwrap();
    several.share.unlink(context(), second, c"file").unwrap();
    several.share.init(FsOptions::all()).unwrap();
    assert!(several.left().abs_diff(8 * MIB) < MIB && several.left() <= 8 * MIB, "{}", several.left());
}

#[test]
fn a_handle_of_a_single_file_that_was_renamed_keeps_its_space_charged() {
    let several = Several::overlapping(8 * MIB);
    let [first, second] = several.folders();
    let single = several.look_up(ROOT, "2").unwrap();
    let handle = several.open(single, libc::O_RDWR).unwrap();
    several.write_at(single, handle, 0, &vec![7; usize::try_from(3 * MIB).unwrap()]).unwrap();
    several.share.rename(context(), first, c"one", first, c"away", 0).unwrap();
    let (node, made) = several.make(first, "one", 0);
    several.close(node, made).unwrap();
    // The name is another file from here on, and the handle is of the one before.
    several.look_up(ROOT, "2").unwrap();
    several.share.unlink(context(), second, c"away").unwrap();
    assert!(several.on_disk() >= 3 * MIB);
    assert!(several.left() < 6 * MIB, "{}", several.left());
    several.close(single, handle).unwrap();
    assert!(several.left() <= 8 * MIB, "{}", several.left());
}

#[test]
fn what_changes_unseen_is_not_credited() {
    let several = Several::overlapping(8 * MIB);
    let [first, _] = several.folders();
    let single = several.look_up(ROOT, "2").unwrap();
    let handle = several.open(single, libc::O_RDWR).unwrap();
    several.share.rename(context(), first, c"one", first, c"away", 0).unwrap();
    let (node, made) = several.make(first, "one", 0);
    several.close(node, made).unwrap();
    several.look_up(ROOT, "2").unwrap();
    let before = several.left();
    // Scattered: some file systems need a block more to tell where the data is, once it is on the disk.
    for at in 1..6 {
        several.write_at(single, handle, 2 * at * 4096, &[7; 4096]).unwrap();
    }
    several.share.fsync(context(), single, false, handle).unwrap();
    several.close(single, handle).unwrap();
    assert!(several.left() < before);
    several.share.unlink(context(), first, c"away").unwrap();
    assert!(several.left() <= before, "{} more", several.left() - before);
}

#[test]
fn files_are_told_apart_by_their_file_systems() {
    let [here, there] = ["/tmp", "/dev/shm"].map(|dir| tempfile::tempdir_in(dir).unwrap());
    let root = |dir: &TempDir| Root {
        fs: pass_through(dir, PLENTY),
        dir: File::open(dir.path()).unwrap().into(),
        file: None,
        readonly: false,
    };
    let share = || {
        let roots = Roots::several(vec![root(&here), root(&there), root(&here)]).unwrap();
        ShareFs::new(roots, Box::new(AllowAll), PLENTY, MIB)
    };
    let [device, other] = [&here, &there].map(|dir| fs::metadata(dir.path()).unwrap().dev());
    assert_ne!(device, other, "in memory and on the disk");
    let first = share();
    first.init(FsOptions::all()).unwrap();
    let known = ["0", "1"].map(|name| first.lookup(context(), ROOT, &c(name)).unwrap().inode);
    let volume = |share: &ShareFs, node: u64| share.nodes().file(node).volume;
    assert_ne!(volume(&first, known[0]), volume(&first, known[1]));
    // The next server knows the same two, and that another root is one of them.
    first.prepare_serialization(Arc::new(AtomicBool::new(false)));
    let mut state = tempfile::tempfile().unwrap();
    first.serialize(state.try_clone().unwrap()).unwrap();
    state.rewind().unwrap();
    let next = share();
    next.deserialize_and_apply(state).unwrap();
    let late = next.lookup(context(), ROOT, c"2").unwrap().inode;
    assert_eq!(volume(&next, late), volume(&next, known[0]));
    assert_ne!(volume(&next, late), volume(&next, known[1]));
}

/// The guest decides whether the server may read them.
#[test]
fn folders_that_cannot_be_read_are_told_apart_as_well() {
    let on = |dir: &str| {
        let dir = tempfile::tempdir_in(dir).unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o333)).unwrap();
        dir
    };
    let work = move || {
        drop_capabilities().unwrap();
        let [here, there] = ["/tmp", "/dev/shm"].map(on);
        let dirs = [&here, &there, &here];
        assert!(dirs.iter().all(|dir| fs::read_dir(dir.path()).is_err()), "nobody here may read them");
        let roots = dirs.map(|dir| Root {
            fs: pass_through(dir, PLENTY),
            dir: rustix::fs::open(dir.path(), rustix::fs::OFlags::PATH, rustix::fs::Mode::empty()).unwrap(),
            file: None,
            readonly: false,
        });
        let roots = Roots::several(roots.into()).unwrap();
        let share = ShareFs::new(roots, Box::new(AllowAll), PLENTY, MIB);
        share.init(FsOptions::all()).unwrap();
        let known = ["0", "1", "2"].map(|name| share.lookup(context(), ROOT, &c(name)).unwrap().inode);
        let [first, second, third] = known.map(|node| share.nodes().file(node).volume);
        assert_ne!(first, second);
        assert_eq!(first, third);
        for dir in [&here, &there] {
            fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
        }
    };
    // The capabilities are this thread's.
    std::thread::spawn(work).join().unwrap();
}

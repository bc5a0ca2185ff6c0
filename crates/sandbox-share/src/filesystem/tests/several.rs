//! Folders and single files side by side.

mod overlap;

use std::ffi::CString;
use std::fs;
use std::io::Seek;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use virtiofsd::filesystem::SerializableFileSystem;

use super::*;
use crate::filesystem::{Root, Roots};

const MIB: u64 = 1 << 20;

/// `0` is a folder, `1` one that is only read, `2` the file `one` of a folder, and `3` such a file that is only read.
struct Several {
    share: ShareFs,
    dirs: Vec<TempDir>,
}

impl Several {
    fn new() -> Self {
        Self::limited(0)
    }

    fn limited(quota_bytes: u64) -> Self {
        let dirs: Vec<TempDir> = (0..4).map(|_| tempfile::tempdir().unwrap()).collect();
        for dir in &dirs {
            fs::write(dir.path().join("one"), "first").unwrap();
            fs::write(dir.path().join("two"), "not shown").unwrap();
        }
        let share = Self::serve(&dirs, quota_bytes);
        share.init(FsOptions::all()).unwrap();
        Self { share, dirs }
    }

    fn serve(dirs: &[TempDir], quota_bytes: u64) -> ShareFs {
        let roots = dirs.iter().enumerate().map(|(number, dir)| Root {
            fs: pass_through(dir, PLENTY),
            dir: File::open(dir.path()).unwrap().into(),
            file: (number >= 2).then(|| CString::from(c"one")),
            readonly: number % 2 == 1,
        });
        ShareFs::new(Roots::several(roots.collect()).unwrap(), Box::new(AllowAll), PLENTY, quota_bytes)
    }

    fn look_up(&self, parent: u64, name: &str) -> io::Result<u64> {
        match self.share.lookup(context(), parent, &c(name))?.inode {
            0 => Err(io::Error::from_raw_os_error(libc::ENOENT)),
            node => Ok(node),
        }
    }

    fn open(&self, node: u64, flags: i32) -> io::Result<u64> {
        self.share.open(context(), node, false, flags.cast_unsigned()).map(|(handle, _)| handle.unwrap())
    }

    fn read(&self, node: u64, handle: u64) -> io::Result<String> {
        let mut data = Data(vec![]);
        self.share.read(context(), node, handle, &mut data, 1 << 20, 0, None, 0)?;
        Ok(String::from_utf8(data.0).unwrap())
    }

    fn write(&self, node: u64, handle: u64, text: &str) -> io::Result<usize> {
        self.write_at(node, handle, 0, text.as_bytes())
    }

    fn write_at(&self, node: u64, handle: u64, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let size = u32::try_from(bytes.len()).unwrap();
        let data = Data(bytes.to_vec());
        self.share.write(context(), node, handle, data, size, offset, None, false, false, 0)
    }

    fn close(&self, node: u64, handle: u64) -> io::Result<()> {
        self.share.release(context(), node, 0, handle, false, false, None)
    }

    fn left(&self) -> u64 {
        let space = self.share.statfs(context(), ROOT).unwrap();
        space.f_bavail * space.f_frsize
    }

    fn host(&self, number: usize, name: &str) -> PathBuf {
        self.dirs[number].path().join(name)
    }

    /// Another server in the place of this one.
    fn slept(self) -> Self {
        self.share.prepare_serialization(Arc::new(AtomicBool::new(false)));
        let mut state = tempfile::tempfile().unwrap();
        self.share.serialize(state.try_clone().unwrap()).unwrap();
        state.rewind().unwrap();
        let next = Self::serve(&self.dirs, 0);
        next.deserialize_and_apply(state).unwrap();
        Self { share: next, dirs: self.dirs }
    }

    /// As editors save.
    fn replace(&self, number: usize, text: &str) {
        fs::write(self.host(number, "new"), text).unwrap();
        fs::rename(self.host(number, "new"), self.host(number, "one")).unwrap();
    }
}

#[test]
fn a_folder_is_written_beside_one_that_is_not() {
    let several = Several::new();
    let (written, read) = (several.look_up(ROOT, "0").unwrap(), several.look_up(ROOT, "1").unwrap());
    assert_ne!(several.look_up(written, "two").unwrap(), several.look_up(read, "two").unwrap());
    let (here, there) = (several.look_up(written, "one").unwrap(), several.look_up(read, "one").unwrap());
    let handle = several.open(here, libc::O_RDWR).unwrap();
    several.write(here, handle, "changed").unwrap();
    assert_eq!(fs::read_to_string(several.host(0, "one")).unwrap(), "changed");
    assert_eq!(number(several.open(there, libc::O_RDWR)), Some(libc::EROFS));
    let reading = several.open(there, libc::O_RDONLY).unwrap();
    assert_eq!(several.read(there, reading).unwrap(), "first");
    assert_eq!(number(several.write(there, reading, "x")), Some(libc::EROFS));

    let share = &several.share;
    let mode = SetattrIn { mode: 0o600, ..SetattrIn::default() };
    for (dir, file, expected) in [(read, there, Some(libc::EROFS)), (written, here, None)] {
        let changes = [
            number(share.mkdir(context(), dir, c"made", 0o755, 0, Extensions::default())),
            number(share.mknod(context(), dir, c"node", libc::S_IFREG | 0o644, 0, 0, Extensions::default())),
            number(share.symlink(context(), c"one", dir, c"symlink", Extensions::default())),
            number(share.link(context(), file, dir, c"link")),
            number(share.rename(context(), dir, c"two", dir, c"three", 0)),
            number(share.setattr(context(), file, mode, None, SetattrValid::MODE)),
            number(share.unlink(context(), dir, c"one")),
        ];
        assert!(changes.iter().all(|change| *change == expected), "{changes:?}");
    }
    assert_eq!(fs::read_dir(several.dirs[1].path()).unwrap().count(), 2);
}

#[test]
fn nothing_leads_from_one_folder_into_another_or_to_the_top() {
    let several = Several::new();
    let share = &several.share;
    let (a, b) = (several.look_up(ROOT, "0").unwrap(), several.look_up(ROOT, "1").unwrap());
    let one = several.look_up(a, "one").unwrap();
    let to_two = share.rename(context(), a, c"one", b, c"one", 0);
    assert_eq!(number(to_two), Some(libc::EROFS));
    assert_eq!(number(share.link(context(), one, ROOT, c"x")), Some(libc::EACCES));
    assert_eq!(number(share.rename(context(), ROOT, c"0", a, c"x", 0)), Some(libc::EACCES));
    assert_eq!(number(share.unlink(context(), ROOT, c"2")), Some(libc::EACCES));
    assert_eq!(
        number(share.mkdir(context(), ROOT, c"x", 0o755, 0, Extensions::default())),
        Some(libc::EACCES)
    );
    assert!(share.opendir(context(), ROOT, 0).is_err());
    for name in ["4", "one", "-1", "00x", "18446744073709551615"] {
        assert!(several.look_up(ROOT, name).is_err(), "{name}");
    }
}

#[test]
fn a_single_file_is_whatever_its_name_leads_to() {
    let several = Several::new();
    let file = several.look_up(ROOT, "2").unwrap();
    let before = several.open(file, libc::O_RDWR).unwrap();
    several.replace(2, "second, and longer");
    assert_eq!(several.look_up(ROOT, "2").unwrap(), file, "to the guest it is the same file");
    assert_eq!(several.share.getattr(context(), file, None).unwrap().0.size, 18);
    let after = several.open(file, libc::O_RDWR).unwrap();
    assert_eq!(several.read(file, after).unwrap(), "second, and longer");
    assert_eq!(several.read(file, before).unwrap(), "first", "who has the old one open goes on with it");
    several.write(file, after, "S").unwrap();
    assert_eq!(fs::read_to_string(several.host(2, "one")).unwrap(), "Second, and longer");
    for handle in [before, after] {
        several.share.release(context(), file, 0, handle, false, false, None).unwrap();
    }
    fs::remove_file(several.host(2, "one")).unwrap();
    assert_eq!(number(several.open(file, libc::O_RDONLY)), Some(libc::ESTALE));
    // Neither another file of the folder, nor whatever a link points at.
    symlink("two", several.host(2, "one")).unwrap();
    assert_eq!(number(several.open(file, libc::O_RDONLY)), Some(libc::ESTALE));
    several.replace(2, "third");
    let handle = several.open(file, libc::O_RDONLY).unwrap();
    assert_eq!(several.read(file, handle).unwrap(), "third");

    let kept = several.look_up(ROOT, "3").unwrap();
    assert_eq!(number(several.open(kept, libc::O_RDWR)), Some(libc::EROFS));
    assert!(several.look_up(file, "..").is_err() && several.look_up(file, "two").is_err());
}

#[test]
fn the_handle_of_a_single_file_is_of_no_other_file() {
    let several = Several::limited(64 * MIB);
    let (folder, single) = (several.look_up(ROOT, "0").unwrap(), several.look_up(ROOT, "2").unwrap());
    let inside = several.look_up(folder, "one").unwrap();
    let handle = several.open(single, libc::O_RDWR).unwrap();
    let held = several.open(inside, libc::O_RDWR).unwrap();
    several.write_at(inside, held, 0, &vec![7; usize::try_from(8 * MIB).unwrap()]).unwrap();
    several.share.unlink(context(), folder, c"one").unwrap();
    let left = several.left();

    for node in [folder, inside] {
        assert_eq!(number(several.write_at(node, handle, 0, b"elsewhere")), Some(libc::EBADF));
        assert_eq!(number(several.share.fallocate(context(), node, handle, 0, 0, MIB)), Some(libc::EBADF));
        assert_eq!(
            number(several.share.copyfilerange(context(), inside, held, 0, node, handle, 0, MIB, 0)),
            Some(libc::EBADF)
        );
        assert_eq!(number(several.read(node, handle)), Some(libc::EBADF));
        assert_eq!(number(several.close(node, handle)), Some(libc::EBADF));
    }
    assert_eq!(several.left(), left, "what is open stays charged");
    several.write(single, handle, "FIRST").unwrap();
    assert_eq!(fs::read_to_string(several.host(2, "one")).unwrap(), "FIRST");
    several.close(single, handle).unwrap();
    several.close(inside, held).unwrap();
    assert!(several.left() >= left + 8 * MIB, "closed, it is not");
}

#[test]
fn writing_to_a_single_file_that_was_replaced_still_costs() {
    let several = Several::limited(8 * MIB);
    let single = several.look_up(ROOT, "2").unwrap();
    let handle = several.open(single, libc::O_RDWR).unwrap();
    several.replace(2, "second");
    let data = vec![7; usize::try_from(MIB).unwrap()];
    several.write_at(single, handle, 0, &data).unwrap();
    assert!(several.left() <= 7 * MIB);
    several.share.fallocate(context(), single, handle, 0, MIB, MIB).unwrap();
    assert!(several.left() <= 6 * MIB);
    let result = (2..100).try_for_each(|at| several.write_at(single, handle, at * MIB, &data).map(drop));
    assert_eq!(number(result), Some(libc::ENOSPC));
    let allocated = several.share.fallocate(context(), single, handle, 0, 0, 9 * MIB);
    assert_eq!(number(allocated), Some(libc::ENOSPC));
    let left = several.left();
    assert!(left < MIB);
    several.close(single, handle).unwrap();
    assert_eq!(several.left(), left);
    assert_eq!(fs::read_to_string(several.host(2, "one")).unwrap(), "second");
}

#[test]
fn a_single_file_that_was_replaced_is_not_credited_against_the_next() {
    let several = Several::limited(8 * MIB);
    let single = several.look_up(ROOT, "2").unwrap();
    let handle = several.open(single, libc::O_RDWR).unwrap();
    several.write_at(single, handle, 0, &vec![7; usize::try_from(4 * MIB).unwrap()]).unwrap();
    let left = several.left();
    assert!(left < 5 * MIB);
    several.replace(2, "second");
    let second = several.open(single, libc::O_RDONLY).unwrap();
    assert_eq!(number(several.close(single, second + 1)), Some(libc::EBADF));
    assert_eq!(several.left(), left, "it is still open");
    several.close(single, handle).unwrap();
    assert_eq!(several.left(), left, "the host may have kept it under another name");
}

#[test]
fn another_server_goes_on_where_this_one_was() {
    let several = Several::new();
    let folder = several.look_up(ROOT, "0").unwrap();
    let (inside, single) = (several.look_up(folder, "one").unwrap(), several.look_up(ROOT, "2").unwrap());
    let open = several.open(inside, libc::O_RDWR).unwrap();
    let several = several.slept();
    several.replace(2, "while it slept");
    several.write(inside, open, "FIRST").unwrap();
    assert_eq!(fs::read_to_string(several.host(0, "one")).unwrap(), "FIRST");
    let handle = several.open(single, libc::O_RDONLY).unwrap();
    assert_eq!(several.read(single, handle).unwrap(), "while it slept");
}

#[test]
fn a_single_file_replaced_while_it_is_open_does_not_keep_the_guest_from_waking() {
    let several = Several::new();
    let single = several.look_up(ROOT, "2").unwrap();
    let replaced = several.open(single, libc::O_RDWR).unwrap();
    several.replace(2, "second");
    let open = several.open(single, libc::O_RDWR).unwrap();
    let several = several.slept();
    assert_eq!(several.read(single, open).unwrap(), "second");
    assert_eq!(number(several.read(single, replaced)), Some(libc::EBADF), "no name leads to that file");
    several.replace(2, "third");
    assert_eq!(several.read(single, open).unwrap(), "second", "who has the old one open goes on with it");
    assert!(several.share.nodes().is_open(single));
    assert_eq!(number(several.close(single, replaced)), Some(libc::EBADF));
    several.close(single, open).unwrap();
    assert!(!several.share.nodes().is_open(single));
}

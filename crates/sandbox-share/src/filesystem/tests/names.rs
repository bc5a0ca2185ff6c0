//! Names: the guest's and the host's changes to them, with and without a descriptor in between.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};

use super::*;

#[test]
fn a_file_goes_to_the_host_and_back() {
    let guest = Guest::with(PLENTY, 0);
    guest.make("a", b"hello");
    assert_eq!(fs::read(guest.host("a")).unwrap(), b"hello");
    fs::write(guest.host("b"), b"hi").unwrap();
    assert_eq!(guest.contents("b"), b"hi");
}

#[test]
fn a_missing_name_is_believed_missing_for_a_second() {
    let guest = Guest::with(PLENTY, 0);
    let missing = guest.look_up(ROOT, "no").unwrap();
    assert_eq!((missing.inode, missing.entry_timeout), (0, BELIEF));
    let present = guest.look_up(guest.mkdir(ROOT, "d").unwrap(), "no").unwrap();
    assert_eq!(present.inode, 0);
}

#[test]
fn nothing_is_believed_for_longer_than_a_second() {
    let guest = Guest::with(PLENTY, 0);
    guest.make("a", b"x");
    let entry = guest.look_up(ROOT, "a").unwrap();
    assert!(entry.entry_timeout <= BELIEF && entry.attr_timeout <= BELIEF);
    let (_, timeout) = guest.share.getattr(context(), entry.inode, None).unwrap();
    assert!(timeout <= BELIEF);
}

#[test]
fn a_name_that_the_host_took_away_or_gave_to_another_file_is_not_opened_as_the_old_one() {
    let guest = Guest::with(PLENTY, 0);
    let (deleted, replaced, moved) =
        (guest.make("deleted", b"old"), guest.make("replaced", b"old"), guest.make("moved", b"old"));
    let flags = libc::O_WRONLY.cast_unsigned();
    for node in [deleted, replaced, moved] {
        let (handle, _) = guest.share.open(context(), node, false, flags).unwrap();
        guest.close(node, handle.unwrap());
    }
    fs::remove_file(guest.host("deleted")).unwrap();
    fs::write(guest.host("new"), b"new").unwrap();
    fs::rename(guest.host("new"), guest.host("replaced")).unwrap();
    fs::rename(guest.host("moved"), guest.host("elsewhere")).unwrap();
    for node in [deleted, replaced, moved] {
        let refused = guest.share.open(context(), node, false, flags).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::ESTALE));
    }
    // What the guest's kernel does next.
    assert_eq!(guest.contents("replaced"), b"new");
    assert_eq!(guest.contents("elsewhere"), b"old");
}

#[test]
fn a_renamed_folder_keeps_its_files() {
    let guest = Guest::with(PLENTY, 0);
    let (old, new) = (guest.mkdir(ROOT, "old").unwrap(), guest.mkdir(ROOT, "new").unwrap());
    let (file, handle) = guest.create(old, "f").unwrap();
    guest.close(file, handle);
    guest.rename((ROOT, "old"), (new, "moved"), 0).unwrap();
    guest.evict_all();
    assert!(guest.attributes(file).is_ok());
    assert_eq!(guest.node("new/moved/f"), file);
    assert_eq!(guest.node("new/moved"), old);
}

#[test]
fn an_exchange_moves_both() {
    let guest = Guest::with(PLENTY, 0);
    let (a, b) = (guest.make("a", b"was a"), guest.make("b", b"was b"));
    guest.rename((ROOT, "a"), (ROOT, "b"), libc::RENAME_EXCHANGE).unwrap();
    guest.evict_all();
    assert_eq!((guest.node("a"), guest.node("b")), (b, a));
    assert_eq!(guest.contents("b"), b"was a");
}

#[test]
fn renaming_over_a_file_replaces_it_and_an_open_reader_keeps_the_old_one() {
    let guest = Guest::with(PLENTY, 0);
    let (new, old) = (guest.make("new", b"new"), guest.make("a", b"old"));
    let reader = guest.open(old, libc::O_RDONLY).unwrap();
    guest.rename((ROOT, "new"), (ROOT, "a"), 0).unwrap();
    guest.evict_all();
    assert_eq!(guest.read(old, reader).unwrap(), b"old");
    assert_eq!(guest.node("a"), new);
    assert_eq!(guest.contents("a"), b"new");
    guest.close(old, reader);
    assert_eq!(number(guest.attributes(old)), Some(libc::ESTALE));
}

#[test]
fn an_unlinked_file_stays_usable_while_it_is_open() {
    let guest = Guest::with(PLENTY, 0);
    let node = guest.make("a", b"one");
    let handle = guest.open(node, libc::O_RDWR).unwrap();
    guest.unlink(ROOT, "a").unwrap();
    guest.evict_all();
    guest.write(node, handle, 3, b"two").unwrap();
    assert_eq!(guest.read(node, handle).unwrap(), b"onetwo");
    assert_eq!(guest.attributes(node).unwrap().nlink, 0);
    guest.close(node, handle);
    assert_eq!(guest.descriptors(), 1);
}

#[test]
fn hard_links_are_one_file() {
    let guest = Guest::with(PLENTY, 0);
    let node = guest.make("a", b"x");
    let link = guest.share.link(context(), node, ROOT, c"b").unwrap();
    assert_eq!((link.inode, link.attr.nlink), (node, 2));
    // Also when the host made the link while the guest's file was evicted.
    guest.evict_all();
    fs::hard_link(guest.host("a"), guest.host("c")).unwrap();
    assert_eq!(guest.node("c"), node);
    guest.unlink(ROOT, "c").unwrap();
    guest.unlink(ROOT, "a").unwrap();
    assert_eq!(guest.node("b"), node);
    guest.evict_all();
    assert_eq!(guest.attributes(node).unwrap().nlink, 1);
}

#[test]
fn a_rename_between_two_names_of_one_file_does_nothing() {
    let guest = Guest::with(PLENTY, 0);
    let node = guest.make("a", b"x");
    guest.share.link(context(), node, ROOT, c"b").unwrap();
    guest.rename((ROOT, "a"), (ROOT, "b"), 0).unwrap();
    guest.evict_all();
    assert_eq!((guest.node("a"), guest.node("b")), (node, node));
}

#[test]
fn a_file_the_host_replaced_is_stale_until_it_is_looked_up() {
    let guest = Guest::with(PLENTY, 0);
    let node = guest.make("a", b"old");
    guest.evict_all();
    fs::write(guest.host("other"), b"new").unwrap();
    fs::rename(guest.host("other"), guest.host("a")).unwrap();
    assert_eq!(number(guest.attributes(node)), Some(libc::ESTALE));
    assert_eq!(number(guest.open(node, libc::O_RDONLY)), Some(libc::ESTALE));
    assert_eq!(guest.contents("a"), b"new");
}

#[test]
fn a_file_the_host_removed_is_stale() {
    let guest = Guest::with(PLENTY, 0);
    let node = guest.make("a", b"old");
    guest.evict_all();
    fs::remove_file(guest.host("a")).unwrap();
    assert_eq!(number(guest.attributes(node)), Some(libc::ESTALE));
    assert_eq!(guest.look_up(ROOT, "a").unwrap().inode, 0);
}

#[test]
fn a_file_the_host_moved_is_found_under_its_new_name() {
    let guest = Guest::with(PLENTY, 0);
    let node = guest.make("a", b"text");
    fs::rename(guest.host("a"), guest.host("b")).unwrap();
    // While it has a descriptor it is certainly the same file.
    assert_eq!(guest.node("b"), node);
    guest.evict_all();
    assert_eq!(guest.contents("b"), b"text");
    assert!(guest.attributes(node).is_ok());
}

#[test]
fn folders_the_host_turned_inside_out_are_found_again() {
    let guest = Guest::with(PLENTY, 0);
    let outer = guest.mkdir(ROOT, "outer").unwrap();
    let inner = guest.mkdir(outer, "inner").unwrap();
    fs::rename(guest.host("outer/inner"), guest.host("inner")).unwrap();
    fs::rename(guest.host("outer"), guest.host("inner/outer")).unwrap();
    // The guest still has the old tree in mind, and goes down from the folder it knows.
    assert_eq!(guest.look_up(inner, "outer").unwrap().inode, outer);
    guest.evict_all();
    assert_eq!(number(guest.attributes(inner)), Some(libc::ESTALE));
    assert!(guest.try_node("inner/outer").is_ok());
}

#[test]
fn a_file_made_where_one_vanished_is_a_new_one() {
    let guest = Guest::with(PLENTY, 0);
    // Many file systems hand an inode number out again at once.
    let old = guest.make("a", b"old");
    let ino = fs::metadata(guest.host("a")).unwrap().ino();
    guest.evict_all();
    fs::remove_file(guest.host("a")).unwrap();
    let new = guest.make("a", b"new");
    let again = fs::metadata(guest.host("a")).unwrap().ino();
    assert_ne!(new, old, "numbers {ino} and {again}");
}

#[test]
fn creating_what_the_host_made_meanwhile_opens_it() {
    let guest = Guest::with(PLENTY, 0);
    fs::write(guest.host("a"), b"host").unwrap();
    let (node, handle) = guest.create(ROOT, "a").unwrap();
    assert_eq!(guest.read(node, handle).unwrap(), b"host");
    guest.close(node, handle);
    let exclusive = guest.create_as(ROOT, "a", 0o644, libc::O_RDWR | libc::O_EXCL);
    assert_eq!(number(exclusive), Some(libc::EEXIST));
}

#[test]
fn only_written_files_go_past_the_guest_cache() {
    use virtiofsd::filesystem::OpenOptions;
    let guest = Guest::with(PLENTY, 0);
    let node = guest.make("a", b"x");
    let direct = |flags: i32| {
        let (handle, options) = guest.share.open(context(), node, false, flags.cast_unsigned()).unwrap();
        guest.close(node, handle.unwrap());
        options.contains(OpenOptions::DIRECT_IO)
    };
    assert!(direct(libc::O_WRONLY));
    assert!(!direct(libc::O_RDONLY) && !direct(libc::O_RDWR));
    // A guest that cannot map such files does not get them.
    guest.share.init(FsOptions::all() - FsOptions::DIRECT_IO_ALLOW_MMAP).unwrap();
    let node = guest.node("a");
    let (handle, options) = guest.share.open(context(), node, false, libc::O_WRONLY.cast_unsigned()).unwrap();
    guest.close(node, handle.unwrap());
    assert!(!options.contains(OpenOptions::DIRECT_IO));
}

#[test]
fn a_link_of_the_host_is_read_not_followed() {
    let guest = Guest::with(PLENTY, 0);
    symlink("/etc", guest.host("link")).unwrap();
    let entry = guest.look_up(ROOT, "link").unwrap();
    assert_eq!(entry.attr.mode & libc::S_IFMT, libc::S_IFLNK);
    assert_eq!(guest.share.readlink(context(), entry.inode).unwrap(), b"/etc");
}

//! What a hostile guest tries, each with the same attempt where it would succeed.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use super::*;

fn mode(path: PathBuf) -> u32 {
    fs::metadata(path).unwrap().permissions().mode()
}

#[test]
fn set_id_bits_do_not_reach_the_host() {
    let guest = Guest::with(PLENTY, 0);
    let (node, handle) = guest.create_as(ROOT, "created", 0o6755, libc::O_RDWR).unwrap();
    guest.close(node, handle);
    let bare = Extensions::default;
    guest.share.mknod(context(), ROOT, c"made", libc::S_IFREG | 0o6755, 0, 0, bare()).unwrap();
    guest.share.mkdir(context(), ROOT, c"folder", 0o6755, 0, bare()).unwrap();
    let changed = guest.make("changed", b"");
    guest
        .set(changed, SetattrIn { mode: libc::S_IFREG | 0o6755, ..SetattrIn::default() }, SetattrValid::MODE)
        .unwrap();
    for name in ["created", "made", "folder", "changed"] {
        assert_eq!(mode(guest.host(name)) & 0o7777, 0o755, "{name}");
    }
}

#[test]
fn without_the_wrapper_set_id_bits_do_reach_the_host() {
    let guest = Guest::with(PLENTY, 0);
    let node = guest.make("changed", b"");
    let inner = guest.share.pin(context(), node).unwrap().inner;
    let attr = SetattrIn { mode: libc::S_IFREG | 0o4755, ..SetattrIn::default() };
    guest.share.inner.setattr(context(), inner, attr, None, SetattrValid::MODE).unwrap();
    assert_eq!(mode(guest.host("changed")) & 0o7777, 0o4755);
}

#[test]
fn names_do_not_lead_out_of_the_folder() {
    let guest = Guest::with(PLENTY, 0);
    let outside = tempfile::tempdir_in(guest.dir.path().parent().unwrap()).unwrap();
    let way = format!("../{}", outside.path().file_name().unwrap().to_str().unwrap());
    let file = format!("{way}/evil");
    guest.make("a", b"x");
    let folder = guest.mkdir(ROOT, "d").unwrap();
    for name in ["..", ".", "", "/etc", "d/../..", file.as_str()] {
        assert_eq!(number(guest.look_up(folder, name)), Some(libc::EINVAL), "{name}");
        assert_eq!(number(guest.create(folder, name)), Some(libc::EINVAL), "{name}");
        assert_eq!(number(guest.mkdir(folder, name)), Some(libc::EINVAL), "{name}");
        assert_eq!(number(guest.unlink(folder, name)), Some(libc::EINVAL), "{name}");
        assert_eq!(number(guest.rename((ROOT, "a"), (folder, name), 0)), Some(libc::EINVAL), "{name}");
        assert_eq!(number(guest.rename((folder, name), (ROOT, "b"), 0)), Some(libc::EINVAL), "{name}");
        let linked = guest.share.link(context(), guest.node("a"), folder, &c(name));
        assert_eq!(number(linked), Some(libc::EINVAL), "{name}");
    }
    // The pass-through alone, without namespaces around it, would have made this one.
    let inner = guest.share.pin(context(), ROOT).unwrap().inner;
    let made = guest.share.inner.mkdir(context(), inner, &c(&file), 0o755, 0, Extensions::default());
    assert!(outside.path().join("evil").is_dir(), "{:?}", made.map(|entry| entry.inode));
}

#[test]
fn a_link_the_guest_made_is_not_followed() {
    let guest = Guest::with(PLENTY, 0);
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), b"secret").unwrap();
    let target = c(outside.path().to_str().unwrap());
    let link = guest.share.symlink(context(), &target, ROOT, c"way", Extensions::default()).unwrap();
    assert_eq!(link.attr.mode & libc::S_IFMT, libc::S_IFLNK);
    assert_eq!(number(guest.look_up(link.inode, "secret")), Some(libc::ENOTDIR));
    assert!(guest.create(link.inode, "new").is_err());
    assert!(guest.open(link.inode, libc::O_RDWR).is_err());
    assert!(guest.resize(link.inode, 0).is_err());
    assert!(guest.list(link.inode).is_err());
    // Neither is it when the guest's kernel opens it by name for writing.
    assert!(guest.create(ROOT, "way").is_err());
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    // A folder of the same shape is walked.
    guest.mkdir(ROOT, "folder").unwrap();
    fs::write(guest.host("folder/secret"), b"open").unwrap();
    assert_eq!(guest.contents("folder/secret"), b"open");
}

#[test]
fn a_folder_replaced_by_a_link_does_not_lead_out() {
    let guest = Guest::with(PLENTY, 0);
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("f"), b"outside").unwrap();
    let folder = guest.mkdir(ROOT, "folder").unwrap();
    let (file, handle) = guest.create(folder, "f").unwrap();
    guest.close(file, handle);
    guest.evict_all();
    fs::rename(guest.host("folder"), guest.host("aside")).unwrap();
    symlink(outside.path(), guest.host("folder")).unwrap();
    assert_eq!(number(guest.attributes(file)), Some(libc::ESTALE));
    assert_eq!(number(guest.look_up(folder, "f")), Some(libc::ESTALE));
    assert!(guest.create(folder, "new").is_err());
    assert!(!outside.path().join("new").exists());
    // With the folder back in its place the same nodes work again.
    fs::remove_file(guest.host("folder")).unwrap();
    fs::rename(guest.host("aside"), guest.host("folder")).unwrap();
    assert!(guest.attributes(file).is_ok());
}

#[test]
fn devices_are_refused_and_pipes_are_not() {
    let guest = Guest::with(PLENTY, 0);
    let make = |name: &CStr, kind: u32| {
        guest.share.mknod(context(), ROOT, name, kind | 0o600, 0, 0, Extensions::default())
    };
    assert_eq!(number(make(c"char", libc::S_IFCHR)), Some(libc::EPERM));
    assert_eq!(number(make(c"block", libc::S_IFBLK)), Some(libc::EPERM));
    assert!(make(c"pipe", libc::S_IFIFO).is_ok());
    guest.make("a", b"");
    let whiteout = guest.rename((ROOT, "a"), (ROOT, "b"), libc::RENAME_WHITEOUT);
    assert_eq!(number(whiteout), Some(libc::EINVAL));
    assert!(guest.rename((ROOT, "a"), (ROOT, "b"), libc::RENAME_NOREPLACE).is_ok());
}

#[test]
fn a_change_of_owner_is_agreed_to_and_not_done() {
    let guest = Guest::with(PLENTY, 0);
    let node = guest.make("a", b"");
    let before = fs::metadata(guest.host("a")).unwrap();
    let attr = SetattrIn { uid: 33.into(), gid: 33.into(), ..SetattrIn::default() };
    guest.set(node, attr, SetattrValid::UID | SetattrValid::GID).unwrap();
    let after = fs::metadata(guest.host("a")).unwrap();
    assert_eq!((after.uid(), after.gid()), (before.uid(), before.gid()));
    assert_ne!(before.uid(), 33);
}

#[test]
fn supplementary_groups_of_the_guest_are_dropped() {
    let guest = Guest::with(PLENTY, 0);
    let groups = Extensions { sup_gids: vec![4242.into()], ..Extensions::default() };
    let made = guest.share.mkdir(context(), ROOT, c"d", 0o755, 0, groups);
    assert!(made.is_ok());
    let mine: Vec<u32> = rustix::process::getgroups().unwrap().iter().map(|gid| gid.as_raw()).collect();
    assert!(!mine.contains(&4242));
}

#[test]
fn handles_belong_to_their_file() {
    let guest = Guest::with(PLENTY, 0);
    let (a, b) = (guest.make("a", b"a"), guest.make("b", b"b"));
    let handle = guest.open(a, libc::O_RDWR).unwrap();
    assert_eq!(number(guest.read(b, handle)), Some(libc::EBADF));
    assert_eq!(number(guest.share.release(context(), b, 0, handle, false, false, None)), Some(libc::EBADF));
    assert_eq!(guest.read(a, handle).unwrap(), b"a");
    guest.close(a, handle);
    assert_eq!(number(guest.read(a, handle)), Some(libc::EBADF));
}

#[test]
fn a_folder_is_not_opened_as_a_file_without_a_name() {
    let guest = Guest::with(PLENTY, 0);
    let folder = guest.mkdir(ROOT, "d").unwrap();
    guest.make("f", b"kept");
    let opendir = |flags: i32| {
        let opened = guest.share.opendir(context(), folder, flags.cast_unsigned());
        opened.map(|(handle, _)| handle.unwrap())
    };
    for flags in [
        libc::O_TMPFILE | libc::O_RDWR,
        (libc::O_TMPFILE & !libc::O_DIRECTORY) | libc::O_WRONLY,
        libc::O_PATH,
    ] {
        assert_eq!(number(guest.open(folder, flags)), Some(libc::EINVAL), "{flags:o}");
        assert_eq!(number(opendir(flags)), Some(libc::EINVAL), "{flags:o}");
        assert_eq!(number(guest.create_as(ROOT, "f", 0o644, flags)), Some(libc::EINVAL), "{flags:o}");
    }
    // What else comes with it does not reach the host.
    let listed = opendir(libc::O_RDWR | libc::O_TRUNC | libc::O_CREAT).unwrap();
    assert_eq!(number(guest.write(folder, listed, 0, b"x")), Some(libc::EBADF));
    guest.share.releasedir(context(), folder, 0, listed).unwrap();
    assert_eq!(guest.contents("f"), b"kept");

    // The pass-through alone makes one, and writes to it.
    let inner = guest.share.pin(context(), folder).unwrap().inner;
    let flags = (libc::O_TMPFILE | libc::O_RDWR).cast_unsigned();
    let handle = guest.share.inner.open(context(), inner, false, flags).unwrap().0.unwrap();
    let write =
        guest.share.inner.write(context(), inner, handle, Data(b"x".into()), 1, 0, None, false, false, 0);
    assert_eq!(write.unwrap(), 1);
}

#[test]
fn numbers_nobody_was_told_of_are_stale() {
    let guest = Guest::with(PLENTY, 0);
    for node in [0, 2, 99, u64::MAX] {
        assert_eq!(number(guest.attributes(node)), Some(libc::ESTALE));
        guest.share.forget(context(), node, u64::MAX);
    }
    // Nor can the root be forgotten.
    guest.share.forget(context(), ROOT, u64::MAX);
    assert!(guest.attributes(ROOT).is_ok());
}

//! Who the server is, and what it may do.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::process::Command;

use rustix::process::{getegid, geteuid};
use tempfile::TempDir;
use virtiofsd::fuse::SetattrIn;

use crate::guest::{Guest, ROOT};
use crate::server::{self, Server};

/// An ordinary user: one that root can become, or whoever runs the test.
fn owner() -> (u32, u32) {
    if geteuid().is_root() { (4321, 4322) } else { (geteuid().as_raw(), getegid().as_raw()) }
}

pub fn checkout(owner: (u32, u32)) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    chown(dir.path(), Some(owner.0), Some(owner.1)).unwrap();
    dir
}

fn assert_no_rights(server: &Server) {
    let status = server.status();
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(status.field(set).trim_start_matches('0'), "", "{set}");
    }
    assert_eq!(status.field("NoNewPrivs"), "1");
    assert_eq!(status.field("Seccomp"), "2");
}

pub fn the_server_is_the_owner_without_rights() {
    let (uid, gid) = owner();
    let dir = checkout((uid, gid));
    let server = Server::start(&server::config(dir.path(), (uid, gid)));
    let _guest = Guest::boot(server.connect(), 0);
    assert_no_rights(&server);
    let status = server.status();
    assert_eq!(status.field("Uid"), [uid; 4].map(|uid| uid.to_string()).join("\t"));
    assert_eq!(status.field("Gid"), [gid; 4].map(|gid| gid.to_string()).join("\t"));
    if geteuid().is_root() {
        assert_eq!(status.field("Groups"), "");
    }
    for kind in ["user", "mnt", "pid", "net"] {
        let of = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/{kind}")).unwrap();
        assert_ne!(of("self"), of(&server.inner().to_string()), "{kind}");
    }
}

pub fn files_of_the_guest_belong_to_the_owner() {
    let (uid, gid) = owner();
    let dir = checkout((uid, gid));
    let server = Server::start(&server::config(dir.path(), (uid, gid)));
    let mut guest = Guest::boot(server.connect(), 0);
    let (entry, handle) = guest.create(ROOT, "by-root", 0o4755).unwrap();
    assert_eq!((entry.attr.uid, entry.attr.gid), (1000.into(), 1000.into()));
    guest.release(entry.nodeid, handle).unwrap();
    guest.act_as(33);
    guest.mkdir(ROOT, "by-33").unwrap();
    guest.act_as(1000);
    guest.mkdir(ROOT, "by-dev").unwrap();
    let chown = SetattrIn { valid: 0x2 | 0x4, uid: 0.into(), gid: 0.into(), ..SetattrIn::default() };
    guest.set(entry.nodeid, chown).unwrap();
    for name in ["by-root", "by-33", "by-dev"] {
        let made = fs::metadata(dir.path().join(name)).unwrap();
        assert_eq!((made.uid(), made.gid()), (uid, gid), "{name}");
        assert_eq!(made.mode() & 0o6000, 0, "{name}");
    }
}

/// Root's server may read what its user may, and nothing by a capability.
pub fn a_root_owner_has_no_capabilities_either() {
    let me = (geteuid().as_raw(), getegid().as_raw());
    let dir = checkout(me);
    let path = dir.path().join("secret");
    fs::write(&path, "secret").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    let server = Server::start(&server::config(dir.path(), me));
    let mut guest = Guest::boot(server.connect(), 0);
    assert_no_rights(&server);
    let entry = guest.look_up(ROOT, "secret").unwrap();
    assert_eq!((entry.attr.uid, entry.attr.gid), (1000.into(), 1000.into()));
    let handle = guest.open(entry.nodeid, 0).unwrap();
    assert_eq!(guest.read(entry.nodeid, handle).unwrap(), b"secret");
    guest.release(entry.nodeid, handle).unwrap();
    // With a capability over permissions this would open too.
    fs::set_permissions(&path, Permissions::from_mode(0o000)).unwrap();
    assert_eq!(guest.open(entry.nodeid, 0), Err(13));
    guest.create(ROOT, "made", 0o644).unwrap();
    assert_eq!(fs::metadata(dir.path().join("made")).unwrap().uid(), me.0);
}

/// A host that forbids namespaces is imitated by a user namespace that allows none inside.
/// A folder, and one file of another that is only read.
fn several(owner: (u32, u32)) -> (TempDir, TempDir, sandbox_share::ShareConfig) {
    let (folder, other) = (checkout(owner), checkout(owner));
    for name in ["one", "two"] {
        fs::write(other.path().join(name), name).unwrap();
        chown(other.path().join(name), Some(owner.0), Some(owner.1)).unwrap();
    }
    let part = |dir: &TempDir, file: Option<&str>| sandbox_share::SharePart {
        dir: dir.path().canonicalize().unwrap(),
        file: file.map(Into::into),
        readonly: file.is_some(),
    };
    let several = vec![part(&folder, None), part(&other, Some("one"))];
    let config = sandbox_share::ShareConfig { several, ..server::config(folder.path(), owner) };
    (folder, other, config)
}

fn use_several(server: &Server, folder: &TempDir, other: &TempDir, owner: u32) {
    let mut guest = Guest::boot(server.connect(), 0);
    assert_no_rights(server);
    let of = |pid: u32| fs::read_link(format!("/proc/{pid}/ns/mnt")).unwrap();
    assert_ne!(of(std::process::id()), of(server.inner()), "this is the case with namespaces");
    let top = guest.look_up(ROOT, "0").unwrap().nodeid;
    let (entry, handle) = guest.create(top, "made", 0o644).unwrap();
    guest.write(entry.nodeid, handle, b"by the guest").unwrap();
    guest.release(entry.nodeid, handle).unwrap();
    assert_eq!(fs::read_to_string(folder.path().join("made")).unwrap(), "by the guest");
    assert_eq!(fs::metadata(folder.path().join("made")).unwrap().uid(), owner);
    let file = guest.look_up(ROOT, "1").unwrap().nodeid;
    assert_eq!(guest.open(file, libc::O_RDWR.cast_unsigned()), Err(libc::EROFS));
    fs::write(other.path().join("new"), "another").unwrap();
    fs::rename(other.path().join("new"), other.path().join("one")).unwrap();
    let handle = guest.open(file, 0).unwrap();
    assert_eq!(guest.read(file, handle).unwrap(), b"another");
    for way in ["..", "two", "0/..", "/etc"] {
        for at in [ROOT, top, file] {
            assert!(guest.look_up(at, way).is_err_and(|number| number != 0), "{way}");
        }
    }
}

pub fn several_folders_are_served_side_by_side() {
    let (uid, gid) = owner();
    let (folder, other, config) = several((uid, gid));
    let server = Server::start(&config);
    use_several(&server, &folder, &other, uid);
}

pub fn without_namespaces_the_share_still_works() {
    let me = (geteuid().as_raw(), getegid().as_raw());
    let dir = checkout(me);
    let forbid =
        "for kind in user mnt pid net; do echo 0 > /proc/sys/user/max_${kind}_namespaces; done; exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--kill-child", "--fork", "sh", "-ec", forbid, "sh"]);
    command.arg(std::env::current_exe().unwrap()).arg(server::VERB);
    let server = Server::start_by(command, &server::config(dir.path(), (0, 0)));
    let mut guest = Guest::boot(server.connect(), 0);
    assert_no_rights(&server);
    let of = |pid: u32| fs::read_link(format!("/proc/{pid}/ns/mnt")).unwrap();
    assert_eq!(of(std::process::id()), of(server.inner()), "this is the case without namespaces");
    guest.exercise();
    let (entry, handle) = guest.create(ROOT, "made", 0o644).unwrap();
    guest.release(entry.nodeid, handle).unwrap();
    assert_eq!(fs::metadata(dir.path().join("made")).unwrap().uid(), me.0);
    // The folder is the guest's world all the same.
    for way in ["..", "../..", "/etc", "/"] {
        assert_eq!(guest.look_up(ROOT, way).map(|entry| entry.nodeid), Err(22), "{way}");
    }
}

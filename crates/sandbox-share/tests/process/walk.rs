//! More files than the process may open.

use std::fs;

use rustix::process::{getegid, geteuid};

use crate::guest::{Guest, ROOT};
use crate::server::{self, Server};

pub fn sixty_thousand_files() {
    // In memory: a busy disk takes minutes to make and remove so many files.
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    for folder in 0..60 {
        let folder = dir.path().join(format!("d{folder}"));
        fs::create_dir(&folder).unwrap();
        for file in 0..1_000 {
            fs::File::create(folder.join(format!("f{file}"))).unwrap();
        }
    }
    let mut command = server::command();
    command.env("SHARE_TEST_OPEN_FILES", "20000");
    let config = server::config(dir.path(), (geteuid().as_raw(), getegid().as_raw()));
    let server = Server::start_by(command, &config);
    let mut guest = Guest::boot(server.connect(), 0);
    let mut files = 0;
    for (_, folder) in guest.list(ROOT).unwrap() {
        files += guest.list(folder).unwrap().len();
    }
    assert_eq!(files, 60_000);
    let open = fs::read_dir(format!("/proc/{}/fd", server.inner())).unwrap().count();
    assert!((10_000..13_000).contains(&open), "{open} open files");
    // The guest remembers all of them, and can use any.
    let (entry, handle) = guest.create(ROOT, "one-more", 0o644).unwrap();
    guest.write(entry.nodeid, handle, b"x").unwrap();
    let first = guest.look_up(ROOT, "d0").unwrap().nodeid;
    assert!(guest.look_up(first, "f0").is_ok());
}

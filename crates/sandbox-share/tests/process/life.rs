//! Requests, and the end.

use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, getegid, geteuid, kill_process};

use crate::guest::{Guest, ROOT};
use crate::identity::checkout;
use crate::server::{self, Server, alive, eventually};

fn me() -> (u32, u32) {
    (geteuid().as_raw(), getegid().as_raw())
}

pub fn every_request_passes_the_filter() {
    let dir = checkout(me());
    let server = Server::start(&server::config(dir.path(), me()));
    let mut guest = Guest::boot(server.connect(), 1000);
    guest.exercise();
    assert!(guest.attributes(ROOT).is_ok());
}

pub fn the_server_ends_when_the_machine_disconnects() {
    let dir = checkout(me());
    let mut server = Server::start(&server::config(dir.path(), me()));
    let guest = Guest::boot(server.connect(), 0);
    assert!(server.child.try_wait().unwrap().is_none());
    drop(guest);
    assert!(server.wait().success());
}

pub fn a_checkout_whose_place_became_a_link_is_not_served() {
    let (around, other) = (checkout(me()), checkout(me()));
    let dir = around.path().join("shop");
    std::fs::create_dir(&dir).unwrap();
    std::os::unix::fs::chown(&dir, Some(me().0), Some(me().1)).unwrap();
    let config = server::config(&dir, me());
    let mut server = Server::start(&config);
    drop(Guest::boot(server.connect(), 0));
    assert!(server.wait().success(), "without a link");
    std::fs::remove_dir(&dir).unwrap();
    std::os::unix::fs::symlink(other.path(), &dir).unwrap();
    assert!(!Server::start(&config).wait().success());
}

/// The parent of a server. It ends with the test, however that goes: the end of its stdin ends it and its server.
struct Parent(Child);

impl Drop for Parent {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Starts a server under another process, kills that one, and returns nothing: both processes of the
/// server must be gone.
fn kill_the_parent(connected: bool) {
    let dir = checkout(me());
    let config = server::config(dir.path(), me());
    // What a killed process leaves there goes when the test ends, too.
    let sockets = tempfile::tempdir().unwrap();
    let parent = Command::new(std::env::current_exe().unwrap())
        .arg(server::PARENT_VERB)
        .arg(serde_json::to_string(&config).unwrap())
        .env("TMPDIR", sockets.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut parent = Parent(parent);
    let mut line = String::new();
    BufReader::new(parent.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let (outer, socket) = line.trim().split_once(' ').unwrap();
    let outer: u32 = outer.parse().unwrap();
    let mut inner = None;
    eventually("the sandbox is entered", || {
        inner = server::in_sandbox(outer).filter(|inner| *inner != outer);
        inner.is_some()
    });
    let inner = inner.unwrap();
    let guest = connected.then(|| Guest::boot(UnixStream::connect(socket).unwrap(), 0));
    assert!(alive(outer) && alive(inner));
    kill_process(Pid::from_child(&parent.0), Signal::KILL).unwrap();
    parent.0.wait().unwrap();
    eventually("both processes end", || !alive(outer) && !alive(inner));
    drop(guest);
}

pub fn no_orphan_before_the_machine_connects() {
    kill_the_parent(false);
}

pub fn no_orphan_while_serving() {
    kill_the_parent(true);
}

/// The process outside is killed: the one inside must not go on alone.
pub fn the_inner_process_ends_with_the_outer() {
    let dir = checkout(me());
    let mut server = Server::start(&server::config(dir.path(), me()));
    let _guest = Guest::boot(server.connect(), 0);
    let inner = server.inner();
    assert_ne!(inner, server.child.id());
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    eventually("the inner process ends", || !alive(inner));
}

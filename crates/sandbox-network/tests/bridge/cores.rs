//! A bridge that crashes leaves nothing of what it had in its memory.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::Command;

use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit};
use sandbox_model::NetworkProfile;

use crate::config;
use crate::process::{Bridge, serve_if_asked};

#[test]
fn a_bridge_that_crashes_leaves_no_core_where_another_program_does() {
    serve_if_asked();
    want_cores();
    let case = "cores::a_bridge_that_crashes_leaves_no_core_where_another_program_does";
    let (mut bridge, _guest) = Bridge::start(case, &config(NetworkProfile::Public, &[], &[]));
    let left = |bridge: &Bridge| std::fs::read_dir(bridge.dir.path()).unwrap().count();
    let mut other = Command::new("sh");
    other.args(["-c", "kill -ABRT $$"]).current_dir(bridge.dir.path());
    if geteuid().is_root() {
        // As the bridge does.
        other.uid(65_534).gid(65_534);
    }
    let status = other.status().unwrap();
    assert!(status.core_dumped(), "{status:?}: nobody leaves a core here, so that this proves nothing");
    let before = left(&bridge);
    let status = bridge.crash();
    assert_eq!(status.signal(), Some(6), "{status:?}");
    assert!(!status.core_dumped(), "{status:?}");
    assert_eq!(left(&bridge), before);
}

/// Whoever wants cores has them, of everything that is started from here on, whatever this was started with.
fn want_cores() {
    let set = |limit| setrlimit(Resource::Core, Rlimit { current: limit, maximum: limit });
    // Root alone may have more than it was given.
    if set(None).is_ok() {
        return;
    }
    let given = getrlimit(Resource::Core).maximum;
    assert_ne!(
        given,
        Some(0),
        "core files are forbidden here for good (`ulimit -Hc` says 0): allow them, or be root"
    );
    set(given).unwrap();
}

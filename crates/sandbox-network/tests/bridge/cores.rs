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
    // Whoever wants cores has them, of everything that is started from here on.
    let maximum = getrlimit(Resource::Core).maximum;
    setrlimit(Resource::Core, Rlimit { current: maximum, maximum }).unwrap();
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

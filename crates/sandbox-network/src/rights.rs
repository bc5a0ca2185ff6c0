//! What the process gives up before it speaks with a guest.

use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
use rustix::process::{
    DumpableBehavior, Resource, Rlimit, Signal, geteuid, getrlimit, set_dumpable_behavior,
    set_parent_process_death_signal, setrlimit,
};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs};
use serde::{Deserialize, Serialize};

/// Whom to become. Only root can.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunAs {
    /// Real, effective and saved; the supplementary groups are none.
    pub uid: u32,
    /// Likewise.
    pub gid: u32,
}

/// The user that owns nothing, on every Linux.
const NOBODY: RunAs = RunAs { uid: 65_534, gid: 65_534 };

/// What a process does not outlive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndsWith {
    Parent,
    /// It finds its end by itself.
    Itself,
}

/// Drops everything that a bridge has no use for, for the whole process. The caller has no other threads.
pub(crate) fn drop_rights(run_as: Option<RunAs>, ends_with: EndsWith) -> std::io::Result<()> {
    match run_as {
        Some(run_as) => become_user(run_as)?,
        // In a container whose root may not become others it stays root, without root's powers.
        None if geteuid().is_root() => drop(become_user(NOBODY)),
        None => {}
    }
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    set_capabilities(None, sets)?;
    set_no_new_privs(true)?;
    if ends_with == EndsWith::Parent {
        // After the change of user, which clears it.
        set_parent_process_death_signal(Some(Signal::KILL))?;
    }
    // What passes here, secrets among it, is in no core file, and no other process of this user reads it.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    // Every connection of the guest is a descriptor here.
    let files = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: files.maximum, maximum: files.maximum })?;
    Ok(())
}

fn become_user(RunAs { uid, gid }: RunAs) -> nix::Result<()> {
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    setgroups(&[])?;
    setresgid(gid, gid, gid)?;
    setresuid(uid, uid, uid)
}

/// Ends the process when the engine's own thread panics: it would leave a card that nobody serves, while the
/// end of this process tells the machine that its network is gone.
pub(crate) fn end_with_the_engine() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        report(info);
        if std::thread::current().name() == Some("smoltcp-poll") {
            std::process::abort();
        }
    }));
}

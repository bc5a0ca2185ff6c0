//! What to do with the sandbox that is there. Pure.

use sandbox_model::{SandboxSpec, SecretSpec, Status};

use crate::{Change, Class, drift};

const REST: &str = "auto-stop";
/// Whoever made one of these another did so to have it from the next start on.
const MEANT: [&str; 2] = ["home volume", "workspace"];

/// What the sandbox that exists needs before it is the one that is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plan {
    /// There is none: make it, then start it.
    Create,
    /// Remove the one at rest, then create: what changed is fixed when a sandbox is made.
    Recreate,
    /// As [`Plan::Recreate`], after stopping one that nobody uses.
    StopAndRecreate,
    /// As [`Plan::Update`], after stopping one that nobody uses.
    StopAndUpdate,
    /// Change the record of the one at rest, then start it.
    Update,
    /// Start the one at rest: nothing differs.
    Start,
    /// Start the one at rest as it was, because its memory is saved and ends with a change. The named
    /// settings differ; `kept` where one of them was meant to count from now on.
    Wake {
        /// As the configuration calls them.
        pending: Vec<&'static str>,
        /// One of them was meant to count from now on.
        kept: bool,
    },
    /// It runs. The named settings differ and apply when it next starts; where `kept`, a start was due for
    /// them, and what uses it is not cut off.
    Use {
        /// As the configuration calls them.
        pending: Vec<&'static str>,
        /// A start was due for them.
        kept: bool,
    },
    /// It is being stopped: look again when that is over.
    Wait,
    /// Paused, or in a status this version does not know.
    Refuse,
}

/// `existing` is what the runtime has; with `keep` it has something to lose (a client, or programs in its
/// memory), and keeps it.
pub fn plan(existing: Option<(&Status, &SandboxSpec)>, wanted: &SandboxSpec, keep: bool) -> Plan {
    let Some((status, current)) = existing else { return Plan::Create };
    let changes = drift(current, wanted);
    let fixed = changes.iter().any(|change| change.fixed);
    let restarts = changes.iter().any(|change| change.class == Class::Recreate);
    match status {
        status if status.is_at_rest() && keep && current != wanted => {
            // How it goes to rest the next time is its keeper's business, whatever its record says.
            let kept = changes.iter().any(|change| change.setting != REST);
            Plan::Wake { pending: names(&changes, false), kept }
        }
        status if status.is_at_rest() && fixed => Plan::Recreate,
        status if status.is_at_rest() && current != wanted => Plan::Update,
        status if status.is_at_rest() => Plan::Start,
        Status::Running if restarts && keep => Plan::Use { pending: names(&changes, true), kept: true },
        // The caller holds the boot lock, so whoever began a boot is gone: nobody waits for it, and
        // what it was begun with (an open network, say) may not be what is wanted now.
        Status::Running | Status::Starting if fixed => Plan::StopAndRecreate,
        Status::Running | Status::Starting if restarts => Plan::StopAndUpdate,
        Status::Running => Plan::Use { pending: names(&changes, false), kept: false },
        Status::Starting => Plan::Start,
        Status::Draining => Plan::Wait,
        _ => Plan::Refuse,
    }
}

/// Whether these changes are not worth a question: what they take to count was already agreed to.
pub fn is_meant(changes: &[Change]) -> bool {
    changes.iter().any(|change| MEANT.contains(&change.setting))
}

/// Whether a secret that one at rest was made with is wanted no more, or for other hosts or places: it would
/// wake with more than the user gives by now, or with a stand-in for which there is no value.
pub fn withdraws(current: &SandboxSpec, wanted: &SandboxSpec) -> bool {
    let same =
        |a: &SecretSpec, b: &SecretSpec| *a == SecretSpec { fingerprint: a.fingerprint.clone(), ..b.clone() };
    !current.secrets.iter().all(|have| wanted.secrets.iter().any(|want| same(have, want)))
}

fn names(changes: &[Change], restarting: bool) -> Vec<&'static str> {
    let wanted = changes.iter().filter(|change| !restarting || change.class == Class::Recreate);
    wanted.map(|change| change.setting).collect()
}

#[cfg(test)]
mod tests {
    use sandbox_model::ByteSize;

    use super::*;
    use crate::up::spec::tests::example;

    fn decide(status: &Status, change: impl Fn(&mut SandboxSpec), keep: bool) -> Plan {
        let current = example();
        let mut wanted = example();
        change(&mut wanted);
        plan(Some((status, &current)), &wanted, keep)
    }

    fn image(spec: &mut SandboxSpec) {
        spec.image_digest = "b".repeat(64).parse().unwrap();
    }

    fn memory(spec: &mut SandboxSpec) {
        spec.resources.memory = ByteSize::gib(9);
    }

    fn nothing(_: &mut SandboxSpec) {}

    #[test]
    fn one_at_rest_is_made_to_fit() {
        assert_eq!(plan(None, &example(), false), Plan::Create);
        for status in [Status::Created, Status::Stopped, Status::Crashed] {
            assert_eq!(decide(&status, nothing, false), Plan::Start);
            assert_eq!(decide(&status, memory, false), Plan::Update);
            assert_eq!(decide(&status, image, false), Plan::Recreate);
            assert_eq!(decide(&status, |spec| spec.root_disk = ByteSize::gib(9), false), Plan::Recreate);
        }
    }

    #[test]
    fn nobody_is_cut_off() {
        let kept = |pending, kept| Plan::Use { pending, kept };
        assert_eq!(decide(&Status::Running, nothing, false), kept(vec![], false));
        assert_eq!(decide(&Status::Running, memory, true), kept(vec!["memory"], false));
        assert_eq!(decide(&Status::Running, memory, false), kept(vec!["memory"], false));
        assert_eq!(decide(&Status::Running, image, true), kept(vec!["image"], true));
        assert_eq!(decide(&Status::Running, image, false), Plan::StopAndRecreate);
        let tmp = |spec: &mut SandboxSpec| spec.tmp = ByteSize::gib(9);
        assert_eq!(decide(&Status::Running, tmp, true), kept(vec!["tmp-size"], true));
        assert_eq!(decide(&Status::Running, tmp, false), Plan::StopAndUpdate);
        assert_eq!(decide(&Status::Stopped, tmp, false), Plan::Update);
    }

    #[test]
    fn saved_memory_is_kept_as_it_is() {
        let wake = |pending, kept| Plan::Wake { pending, kept };
        assert_eq!(decide(&Status::Stopped, nothing, true), Plan::Start);
        assert_eq!(decide(&Status::Stopped, memory, true), wake(vec!["memory"], true));
        assert_eq!(decide(&Status::Stopped, image, true), wake(vec!["image"], true));
        assert_eq!(decide(&Status::Stopped, |spec| spec.sleep ^= true, true), wake(vec!["auto-stop"], false));
        let label = |spec: &mut SandboxSpec| drop(spec.labels.insert("x".into(), "y".into()));
        assert_eq!(decide(&Status::Stopped, label, true), wake(vec![], false));
        assert_eq!(decide(&Status::Stopped, label, false), Plan::Update);
    }

    #[test]
    fn a_secret_of_another_reach_is_no_matter_of_taste() {
        let secret = |name: &str, value: &str| SecretSpec {
            name: name.into(),
            hosts: Vec::new(),
            headers: vec!["authorization".into()],
            query: false,
            body: false,
            fingerprint: value.into(),
        };
        let with = |secrets: Vec<SecretSpec>| SandboxSpec { secrets, ..example() };
        let (one, other) = (secret("A", "1"), secret("B", "1"));
        for (have, want, withdrawn) in [
            (with(vec![]), with(vec![one.clone()]), false),
            (with(vec![one.clone()]), with(vec![secret("A", "2"), other.clone()]), false),
            (with(vec![one.clone(), other]), with(vec![one.clone()]), true),
            (with(vec![one.clone()]), with(vec![SecretSpec { body: true, ..one.clone() }]), true),
        ] {
            assert_eq!(withdraws(&have, &want), withdrawn, "{:?} {:?}", have.secrets, want.secrets);
        }
    }

    #[test]
    fn another_home_was_asked_for() {
        let mut wanted = example();
        wanted.home.path = "/volumes/other.ext4".into();
        assert!(is_meant(&drift(&example(), &wanted)));
        wanted = example();
        memory(&mut wanted);
        assert!(!is_meant(&drift(&example(), &wanted)));
    }

    #[test]
    fn a_boot_that_its_starter_left_is_joined_only_when_it_is_the_wanted_one() {
        assert_eq!(decide(&Status::Starting, nothing, false), Plan::Start);
        assert_eq!(decide(&Status::Starting, image, false), Plan::StopAndRecreate);
        let open = |spec: &mut SandboxSpec| spec.network.profile = sandbox_model::NetworkProfile::Public;
        assert_ne!(decide(&Status::Starting, open, false), Plan::Start);
        assert_eq!(decide(&Status::Starting, open, false), decide(&Status::Running, open, false));
    }

    #[test]
    fn what_is_not_understood_is_not_touched() {
        assert_eq!(decide(&Status::Draining, image, false), Plan::Wait);
        for status in [Status::Paused, Status::Unknown("hibernating".into())] {
            assert_eq!(decide(&status, image, false), Plan::Refuse);
        }
    }
}

//! What to do with the sandbox that is there. Pure.

use sandbox_model::{SandboxSpec, Status};

/// What the sandbox that exists needs before it is the one that is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plan {
    Create,
    /// Remove the one at rest, then create: what changed is fixed when a sandbox is made.
    Recreate,
    /// As [`Plan::Recreate`], after stopping one that nobody uses.
    StopAndRecreate,
    /// Change the record of the one at rest, then start it.
    Update,
    Start,
    /// It runs. The named settings differ and apply when it next starts (or, where `made_anew`, when it
    /// next starts without a client), because nobody is cut off.
    Use {
        pending: Vec<&'static str>,
        made_anew: bool,
    },
    /// It is being stopped: look again when that is over.
    Wait,
    /// Paused, or in a status this version does not know.
    Refuse,
}

/// `existing` is what the runtime has; `others` says whether anyone is attached to it.
pub fn plan(existing: Option<(&Status, &SandboxSpec)>, wanted: &SandboxSpec, others: bool) -> Plan {
    let Some((status, current)) = existing else { return Plan::Create };
    let fixed = fixed_changes(current, wanted);
    match status {
        status if status.is_at_rest() && !fixed.is_empty() => Plan::Recreate,
        status if status.is_at_rest() && current != wanted => Plan::Update,
        status if status.is_at_rest() => Plan::Start,
        Status::Running if fixed.is_empty() => {
            Plan::Use { pending: changes(current, wanted), made_anew: false }
        }
        Status::Running if others => Plan::Use { pending: fixed, made_anew: true },
        Status::Running => Plan::StopAndRecreate,
        // Whatever it was made with, someone is waiting for it.
        Status::Starting => Plan::Start,
        Status::Draining => Plan::Wait,
        _ => Plan::Refuse,
    }
}

/// Changes that need another root disk.
pub fn fixed_changes(current: &SandboxSpec, wanted: &SandboxSpec) -> Vec<&'static str> {
    named([
        ("image", current.image_digest != wanted.image_digest),
        ("disk-size", current.root_disk != wanted.root_disk),
    ])
}

/// Changes that the next start brings.
fn changes(current: &SandboxSpec, wanted: &SandboxSpec) -> Vec<&'static str> {
    named([
        ("cpus", current.resources.cpus != wanted.resources.cpus),
        ("memory", current.resources.memory != wanted.resources.memory),
        ("tmp-size", current.tmp != wanted.tmp),
        ("home volume", current.home != wanted.home),
        ("workspace-quota", current.workspace.quota != wanted.workspace.quota),
        ("workspace", current.workspace.source != wanted.workspace.source),
        ("network", current.network != wanted.network),
        ("env", current.env != wanted.env),
    ])
}

fn named<const N: usize>(all: [(&'static str, bool); N]) -> Vec<&'static str> {
    all.into_iter().filter(|(_, changed)| *changed).map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use sandbox_model::ByteSize;

    use super::*;
    use crate::up::spec::tests::example;

    fn decide(status: &Status, change: impl Fn(&mut SandboxSpec), others: bool) -> Plan {
        let current = example();
        let mut wanted = example();
        change(&mut wanted);
        plan(Some((status, &current)), &wanted, others)
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
        let kept = |pending, made_anew| Plan::Use { pending, made_anew };
        assert_eq!(decide(&Status::Running, nothing, false), kept(vec![], false));
        assert_eq!(decide(&Status::Running, memory, true), kept(vec!["memory"], false));
        assert_eq!(decide(&Status::Running, memory, false), kept(vec!["memory"], false));
        assert_eq!(decide(&Status::Running, image, true), kept(vec!["image"], true));
        assert_eq!(decide(&Status::Running, image, false), Plan::StopAndRecreate);
    }

    #[test]
    fn what_is_not_understood_is_not_touched() {
        assert_eq!(decide(&Status::Draining, image, false), Plan::Wait);
        for status in [Status::Paused, Status::Unknown("hibernating".into())] {
            assert_eq!(decide(&status, image, false), Plan::Refuse);
        }
    }
}

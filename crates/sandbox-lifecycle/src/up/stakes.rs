//! What would be lost by making a sandbox the wanted one.

use sandbox_model::{ByteSize, Status};
use sandbox_runtime::SandboxInfo;

use super::others::{self, InUse};
use super::plan::{Plan, is_meant};
use crate::{Change, Context, Target};

/// Nobody loses it without a yes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stake {
    /// Someone or something uses it.
    Held(InUse),
    /// Nobody uses it, but whatever runs in it would have gone to sleep with it, and on after that. Nobody looks
    /// whether anything does.
    Programs,
    /// It sleeps.
    Memory(ByteSize),
}

impl Stake {
    /// Whether a yes to losing this is one to losing what is at stake now, in the same life of the sandbox.
    pub fn covers(&self, now: &Self) -> bool {
        match (self, now) {
            (Self::Held(asked), Self::Held(now)) => asked.covers(now),
            (Self::Held(_) | Self::Programs, Self::Programs) | (Self::Memory(_), Self::Memory(_)) => true,
            _ => false,
        }
    }
}

/// `alone` is the plan for a sandbox with nothing to lose; `rebuilt` says that the user asked for another
/// image, and so for another sandbox.
pub fn at_stake(
    context: &Context<'_>,
    target: &Target,
    existing: &SandboxInfo,
    alone: &Plan,
    changes: &[Change],
    rebuilt: bool,
) -> Option<Stake> {
    let meant = rebuilt || is_meant(changes);
    match alone {
        Plan::StopAndRecreate | Plan::StopAndUpdate if existing.status == Status::Running => {
            // Where nobody knows whether it can sleep, what runs in it is not ended unasked either.
            let can = context.runtime.capabilities_for(&existing.spec.name).map_or(true, |can| can.sleep);
            let sleeps = existing.spec.sleep && can;
            let programs = (sleeps && !meant).then_some(Stake::Programs);
            others::held(context, target).map(Stake::Held).or(programs)
        }
        Plan::Recreate | Plan::Update if !meant => existing.saved_memory.map(Stake::Memory),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_yes_covers_what_was_asked_about_and_less() {
        let held = |clients: &[u32]| Stake::Held(InUse { reason: "held".into(), clients: clients.to_vec() });
        let memory = |gib| Stake::Memory(ByteSize::gib(gib));
        for (asked, now, covered) in [
            (held(&[1, 2]), held(&[2]), true),
            (held(&[1, 2]), held(&[]), true),
            (held(&[1]), held(&[1, 2]), false),
            (held(&[1]), Stake::Programs, true),
            (Stake::Programs, held(&[]), false),
            (Stake::Programs, Stake::Programs, true),
            (held(&[1]), memory(1), false),
            (memory(1), memory(2), true),
            (memory(1), Stake::Programs, false),
        ] {
            assert_eq!(asked.covers(&now), covered, "{asked:?} {now:?}");
        }
    }
}

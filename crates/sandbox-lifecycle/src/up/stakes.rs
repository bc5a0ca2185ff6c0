//! What would be lost by making a sandbox the wanted one.

use sandbox_model::{ByteSize, Status};
use sandbox_runtime::SandboxInfo;

use super::others;
use super::plan::{Plan, is_meant};
use crate::{Change, Context, Target};

/// Nobody loses it without a yes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stake {
    /// Someone or something uses it, in the keeper's words.
    Held(String),
    /// Nobody uses it, but whatever runs in it would have gone to sleep with it, and on after that. Nobody looks
    /// whether anything does.
    Programs,
    /// It sleeps.
    Memory(ByteSize),
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

//! What to do with the sandbox that is there, where something would be lost as the user wants it.

use std::ops::ControlFlow;

use sandbox_model::{SandboxName, SandboxSpec};
use sandbox_runtime::SandboxInfo;

use super::answers::{Answers, Loss, Question};
use super::others::life;
use super::plan::{Plan, plan, withdraws};
use super::stakes::{Stake, at_stake};
use crate::{Change, Class, Context, Declined, LifecycleError, Result, RunningChoice, UpRequest, drift};

/// The plan, or the question that comes before it.
pub fn decide(
    context: &Context<'_>,
    request: &UpRequest,
    answers: &Answers,
    existing: Option<&SandboxInfo>,
    wanted: &SandboxSpec,
    rebuilt: bool,
) -> Result<ControlFlow<Question, Plan>> {
    let Some(info) = existing else { return Ok(ControlFlow::Continue(Plan::Create)) };
    // Whoever was asked since, and keeps what is there, wishes for no other sandbox any more.
    let rebuilt = rebuilt && !answers.keep();
    let plan = |keep| plan(Some((&info.status, &info.spec)), wanted, keep);
    let alone = plan(false);
    if info.status.is_at_rest() && withdraws(&info.spec, wanted) {
        // Neither does it wake with what is not given any more, nor is what sleeps lost unasked.
        return if info.saved_memory.is_some() && !rebuilt {
            Err(LifecycleError::SecretWithdrawn(wanted.name.clone()))
        } else {
            Ok(ControlFlow::Continue(alone))
        };
    }
    let mut changes = drift(&info.spec, wanted);
    let Some(stake) = at_stake(context, &request.target(), info, &alone, &changes, rebuilt) else {
        return Ok(ControlFlow::Continue(alone));
    };
    let kept = plan(true);
    if !matches!(kept, Plan::Use { kept: true, .. } | Plan::Wake { kept: true, .. }) {
        return Ok(ControlFlow::Continue(kept));
    }
    if !matches!(stake, Stake::Memory(_)) {
        changes.retain(|change| change.class == Class::Recreate);
    }
    let sandbox = wanted.name.clone();
    let life = life(context, &sandbox)?;
    let loss = Loss { sandbox, changes, stake, life };
    match answers.to_loss(context, &loss) {
        ControlFlow::Break(question) => Ok(ControlFlow::Break(question)),
        ControlFlow::Continue(RunningChoice::Keep) => {
            tell_kept(context, &wanted.name, &loss.changes, &loss.stake);
            Ok(ControlFlow::Continue(kept))
        }
        ControlFlow::Continue(RunningChoice::Proceed) => Ok(ControlFlow::Continue(alone)),
        ControlFlow::Continue(RunningChoice::Quit) => Err(Declined::error()),
    }
}

fn tell_kept(context: &Context<'_>, sandbox: &SandboxName, changes: &[Change], stake: &Stake) {
    let why = match stake {
        Stake::Held(_) => "others use the sandbox, so it keeps running as it is",
        Stake::Programs => {
            "the sandbox is not asleep yet, and keeps running as it is with whatever runs in it"
        }
        Stake::Memory(_) => "the sandbox sleeps with its programs, and wakes as it was",
    };
    let list: Vec<&str> = changes.iter().map(|change| change.setting).collect();
    context.reporter.postponed(sandbox, &format!("{why}; changed since: {}", list.join(", ")));
}

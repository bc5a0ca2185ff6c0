//! The short way: the sandbox runs as it should, and only a lease is missing. A few milliseconds, without
//! a lock.

use std::time::Instant;

use sandbox_agents::profile;
use sandbox_keeper::LeaseOutcome;
use sandbox_model::{SandboxName, SandboxSpec, Status};
use sandbox_state::{ProjectState, read_record};

use super::{Outcome, Up, guest, live_ports, live_resources, live_secrets, plan, proxy};
use crate::{Change, Context, Lease, Result, Stage, UpRequest, keeper, sandbox_name};

/// Kind of the fingerprint that says what the sandbox's image was built from.
pub const IMAGE_FINGERPRINT: &str = "image";

/// `None` when there is more to do than to attach.
pub fn attach(context: &Context<'_>, request: &UpRequest, content_id: &str) -> Result<Option<Outcome>> {
    if request.rebuild {
        return Ok(None);
    }
    let begin = Instant::now();
    let target = request.target();
    let files = context.layout.sandbox_state(&target.checkout, target.agent);
    let Some(state) = read_record::<ProjectState>(&files.state())? else { return Ok(None) };
    let another_proxy = proxy::change(&state, request);
    let (Some(digest), Some(home)) = (state.image_digest, state.home_volume) else { return Ok(None) };
    if state.fingerprints.get(IMAGE_FINGERPRINT).map(String::as_str) != Some(content_id) {
        return Ok(None);
    }
    let name = sandbox_name(context, &target)?;
    let Some(mut info) = context.runtime.inspect(&name)? else { return Ok(None) };
    if info.status != Status::Running {
        return Ok(None);
    }
    let workspace = guest::workspace(&request.project, context.identity, request.settings.workspace_quota)?;
    let volume = context.layout.volume(&home);
    let wanted = SandboxSpec { name, ..super::spec::spec(request, digest, volume, workspace)? };
    live_ports::settle(context, &mut info, &wanted)?;
    live_secrets::settle(context, request, &mut info, &wanted)?;
    let as_it_is = live_ports::with_added(Some(&info), &wanted);
    match plan::plan(Some((&info.status, &info.spec)), &as_it_is, false) {
        plan::Plan::Use { pending, .. } => {
            let mut pending = live_resources::settle(context, request, &mut info, &wanted, &pending)?;
            pending.extend(another_proxy.map(|change| change.setting));
            tell_pending(context, request, &pending);
        }
        _ => return Ok(None),
    }
    match keeper::lease(context, request, &files.keeper())? {
        LeaseOutcome::Leased(lease) => {
            for (stage, what) in [
                (Stage::Image, "nothing changed"),
                (Stage::HomeVolume, home.as_str()),
                (Stage::Sandbox, "it runs"),
            ] {
                stage.report(context.reporter, what, begin.elapsed());
            }
            finish(context, request, &wanted.name, lease).map(Some)
        }
        LeaseOutcome::Draining(keeper) => Ok(Some(Outcome::Stopping(keeper))),
        LeaseOutcome::NoKeeper => Ok(None),
    }
}

/// With the lease held nobody stops the sandbox; it may still have stopped just before.
pub fn finish(
    context: &Context<'_>,
    request: &UpRequest,
    name: &SandboxName,
    lease: Lease,
) -> Result<Outcome> {
    let Some(boot_id) = context.runtime.boot_id(name)? else { return Ok(Outcome::Unsettled) };
    let Some(guest_boot) = context.runtime.guest_boot(name)? else { return Ok(Outcome::Unsettled) };
    Ok(Outcome::Up(Up {
        emulated: context.runtime.emulated(name)?,
        name: name.clone(),
        profile: profile(request.agent)?,
        lease,
        boot_id,
        guest_boot,
        started: false,
        guest_dir: guest::guest_dir(&request.project.subdir),
    }))
}

/// Says which settings the running sandbox does not have yet. Only `run` is where someone may have changed
/// them on purpose; every other verb takes the sandbox as it is.
pub fn tell_pending(context: &Context<'_>, request: &UpRequest, pending: &[&str]) {
    if pending.is_empty() {
        return;
    }
    let text = format!("changed settings apply when the sandbox next starts: {}", pending.join(", "));
    if request.verb == "run" {
        context.reporter.info(&text);
    } else {
        context.reporter.verbose(&text);
    }
}

/// Says which settings count from the start that is about to be made.
pub fn tell_applied(context: &Context<'_>, request: &UpRequest, changes: &[Change]) {
    if changes.is_empty() {
        return;
    }
    let list: Vec<String> = changes.iter().map(ToString::to_string).collect();
    let text = format!("changed since the sandbox last ran: {}", list.join("; "));
    if request.verb == "run" {
        context.reporter.info(&text);
    } else {
        context.reporter.verbose(&text);
    }
}

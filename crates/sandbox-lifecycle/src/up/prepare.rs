//! The long way, under the boot lock: image, home volume, sandbox, boot, keeper.

use std::time::Instant;

use sandbox_keeper::LeaseOutcome;
use sandbox_model::{Digest, SandboxSpec, Status};
use sandbox_runtime::SandboxInfo;
use sandbox_state::{ProjectState, SandboxFiles, crash, read_record, write_record};

use super::attach::{IMAGE_FINGERPRINT, attach, finish, tell_applied, tell_pending};
use super::plan::{Plan, plan};
use super::{Outcome, guest, home, others, spec};
use crate::locks::{boot_lock, use_images};
use crate::{
    Class, Context, Declined, LifecycleError, Result, RunningChoice, RunningQuestion, Stage, UpRequest,
    build, drift, home_volume, keeper, memory, sandbox_name, versions,
};

/// A guest that is stopped to be made anew has this long to end.
const GRACE: std::time::Duration = std::time::Duration::from_secs(20);

/// `request.rebuild` is taken back once it is done, and `booted` is set once the sandbox was started, so
/// that another round does neither again.
pub fn prepare(
    context: &Context<'_>,
    request: &mut UpRequest,
    content_id: &str,
    booted: &mut bool,
) -> Result<Outcome> {
    let target = request.target();
    let lock = boot_lock(context, &target, request.verb)?;
    // Whoever held the lock may have done all the work.
    if let Some(outcome) = attach(context, request, content_id)? {
        return Ok(outcome);
    }
    let files = context.layout.sandbox_state(&target.checkout, target.agent);
    let mut state = read_record::<ProjectState>(&files.state())?.unwrap_or_default();
    // Nobody removes images while one is about to be used.
    let images = use_images(context, request.verb)?;
    let image = Stage::Image.run(context.reporter, || image(context, request, &state, content_id))?;
    request.rebuild = false;
    versions::remember_wanted(&mut state, &files, request.agent_version.as_ref())?;

    let workspace = guest::workspace(&request.project, context.identity, request.settings.workspace_quota)?;
    let owner = (workspace.guest_uid, workspace.guest_gid);
    let (volume, home, made) = Stage::HomeVolume
        .run(context.reporter, || home_volume::ensure(context, &target, &state, &image.digest, owner))?;
    if made {
        home::settle(&mut state, volume, &image.digest);
        write_record(&files.state(), &state)?;
    }

    let begin = Instant::now();
    let mut name = sandbox_name(context, &target)?;
    let mut wanted = spec::spec(request, image.digest.clone(), home, workspace);
    let today = std::mem::replace(&mut wanted.name, name.clone());
    let existing = context.runtime.inspect(&name)?;
    let mut asleep = false;
    let plan = decide(context, request, existing.as_ref(), &wanted)?;
    context.reporter.verbose(&format!("{name}: {plan:?}"));
    match &plan {
        Plan::Wait => return Ok(Outcome::Unsettled),
        Plan::Refuse => {
            let status = existing.map_or(Status::Created, |info| info.status);
            return Err(LifecycleError::NotUsable { name, status });
        }
        Plan::Use { pending, made_anew } => tell_pending(context, request, pending, *made_anew),
        Plan::Create
        | Plan::Recreate
        | Plan::StopAndRecreate
        | Plan::StopAndUpdate
        | Plan::Update
        | Plan::Start => {
            asleep = existing.as_ref().is_some_and(|info| info.saved_memory.is_some()) && plan == Plan::Start;
            let changes = existing.map(|info| drift(&info.spec, &wanted)).unwrap_or_default();
            let choice = home::ask(context, &plan, &state, &wanted, &changes)?;
            tell_applied(context, request, &changes);
            if plan != Plan::Start {
                memory::drop_saved(context, &name, "the sandbox changes")?;
            }
            stop(context, &plan, &wanted)?;
            crash::point("the sandbox is at rest");
            if let Some(how) = choice {
                home::replace(context, &target, &mut state, &mut wanted, how)?;
            }
            if matches!(plan, Plan::Recreate | Plan::StopAndRecreate) {
                context.runtime.remove(&name)?;
                crash::point("the sandbox is removed to be made anew");
                // One of an earlier version gets today's name with it.
                name.clone_from(&today);
                wanted.name = today;
            }
            if !settle(context, &plan, &wanted)? {
                return Ok(Outcome::Unsettled);
            }
        }
    }
    if !matches!(plan, Plan::Use { made_anew: true, .. }) {
        record(&files, &mut state, &image)?;
    }
    if !matches!(plan, Plan::Use { .. }) {
        let step = context.reporter.begin(if asleep { "waking the sandbox" } else { "starting the sandbox" });
        // The runtime tries a boot that hangs a second time; what remains carries the console's last lines.
        crash::point("the sandbox is not started yet");
        context.runtime.start(&name)?;
        crash::point("the sandbox is started");
        step.finish(None);
        *booted = true;
        versions::record_image(context, request, &name, &image.digest, &files, &mut state)?;
    }
    drop(images);
    let outcome = keeper::lease_or_start(context, request, &name, &files)?;
    crash::point("the keeper has a client");
    drop(lock);
    Stage::Sandbox.report(context.reporter, done(&plan), begin.elapsed());
    match outcome {
        LeaseOutcome::Leased(lease) => finish(context, request, &name, lease),
        LeaseOutcome::Draining(keeper) => Ok(Outcome::Stopping(keeper)),
        LeaseOutcome::NoKeeper => Ok(Outcome::Unsettled),
    }
}

/// What came of a plan, in a few words.
const fn done(plan: &Plan) -> &'static str {
    match plan {
        Plan::Create => "made and started",
        Plan::Recreate | Plan::StopAndRecreate => "made anew and started",
        Plan::Update | Plan::StopAndUpdate => "changed and started",
        Plan::Start => "started",
        Plan::Use { .. } | Plan::Wait | Plan::Refuse => "it runs",
    }
}

/// The image that the sandbox shall have.
pub struct Image {
    pub digest: Digest,
    content_id: String,
}

/// The recorded image where nothing changed and the runtime still has it: no engine is asked then.
pub fn image(
    context: &Context<'_>,
    request: &UpRequest,
    state: &ProjectState,
    content_id: &str,
) -> Result<Image> {
    let build = request.build_request();
    let recorded = state.fingerprints.get(IMAGE_FINGERPRINT).is_some_and(|recorded| recorded == content_id);
    if let (Some(digest), true, false) = (&state.image_digest, recorded, request.rebuild)
        && context.runtime.inspect_image(&build.reference())?.is_some_and(|image| image.digest == *digest)
    {
        return Ok(Image { digest: digest.clone(), content_id: content_id.into() });
    }
    let image = context.images.ensure(context, &build)?;
    build::load(context, &build, &image)?;
    Ok(Image { digest: image.digest, content_id: content_id.into() })
}

/// What to do with the sandbox that is there, asking where others would be cut off.
fn decide(
    context: &Context<'_>,
    request: &UpRequest,
    existing: Option<&SandboxInfo>,
    wanted: &SandboxSpec,
) -> Result<Plan> {
    let plan = |others| plan(existing.map(|info| (&info.status, &info.spec)), wanted, others);
    let alone = plan(false);
    let (Some(info), Plan::StopAndRecreate | Plan::StopAndUpdate) = (existing, &alone) else {
        return Ok(alone);
    };
    let Some(held) = others::held(context, &request.target()) else { return Ok(alone) };
    let mut changes = drift(&info.spec, wanted);
    changes.retain(|change| change.class == Class::Recreate);
    let question = RunningQuestion { sandbox: &wanted.name, changes: &changes, held: &held };
    match context.reporter.decisions().running(&question) {
        RunningChoice::Keep => Ok(plan(true)),
        RunningChoice::Proceed => Ok(alone),
        RunningChoice::Quit => Err(Declined::error()),
    }
}

/// Nobody uses it, or they were asked.
fn stop(context: &Context<'_>, plan: &Plan, wanted: &SandboxSpec) -> Result<()> {
    if matches!(plan, Plan::StopAndRecreate | Plan::StopAndUpdate) {
        let step = context.reporter.begin("stopping the sandbox to make it anew");
        context.runtime.stop(&wanted.name, GRACE)?;
        step.finish(None);
    }
    Ok(())
}

/// Makes the sandbox at rest the wanted one. `false` when someone got in between: look again.
fn settle(context: &Context<'_>, plan: &Plan, wanted: &SandboxSpec) -> Result<bool> {
    let runtime = &context.runtime;
    let outcome = match plan {
        Plan::Create | Plan::Recreate | Plan::StopAndRecreate => {
            context.reporter.verbose("making the sandbox");
            runtime.create(wanted)
        }
        Plan::Update | Plan::StopAndUpdate => runtime.update(wanted),
        _ => Ok(()),
    };
    match outcome {
        Ok(()) => Ok(true),
        Err(sandbox_runtime::RuntimeError::Exists(_) | sandbox_runtime::RuntimeError::WrongStatus { .. }) => {
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}

fn record(files: &SandboxFiles, state: &mut ProjectState, image: &Image) -> Result<()> {
    let before = state.clone();
    state.image_digest = Some(image.digest.clone());
    state.fingerprints.insert(IMAGE_FINGERPRINT.into(), image.content_id.clone());
    if *state != before {
        write_record(&files.state(), state)?;
    }
    Ok(())
}

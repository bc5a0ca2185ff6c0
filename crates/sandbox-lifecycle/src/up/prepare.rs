//! The long way, under the boot lock: image, home volume, sandbox, boot, keeper.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Instant;

use sandbox_keeper::LeaseOutcome;
use sandbox_model::{Digest, SandboxName, SandboxSpec, Status};
use sandbox_runtime::SandboxInfo;
use sandbox_state::{ProjectState, SandboxFiles, check_space, crash, read_record, write_record};

use super::attach::{IMAGE_FINGERPRINT, attach, finish, tell_applied, tell_pending};
use super::decide::decide;
use super::plan::Plan;
use super::{
    Course, Outcome, guest, home, live_ports, live_resources, live_secrets, mounts, ports, proxy, spec,
};
use crate::locks::{boot_lock, use_images};
use crate::{
    Context, LifecycleError, Result, Stage, Target, UpRequest, build, drift, home_volume, host_path, keeper,
    memory, sandbox_name, versions,
};

/// A guest that is stopped to be made anew has this long to end.
const GRACE: std::time::Duration = std::time::Duration::from_secs(20);

/// Records, and the keeper's own files.
const STATE_SPACE: u64 = 256 << 10;
/// A root disk and a home with nothing in them.
const DATA_SPACE: u64 = 16 << 20;

/// `request.rebuild` is taken back once it is done, and `course` says what another round need not do again. Ends
/// with a question where a person is to be asked: nothing has ended then, and no lock is held any more.
pub fn prepare(
    context: &Context<'_>,
    request: &mut UpRequest,
    content_id: &str,
    course: &mut Course,
) -> Result<Outcome> {
    let target = request.target();
    let lock = boot_lock(context, &target, request.verb)?;
    // Whoever held the lock may have done all the work.
    if !course.rebuilt
        && let Some(outcome) = attach(context, request, content_id)?
    {
        return Ok(outcome);
    }
    let files = context.layout.sandbox_state(&target.checkout, target.agent);
    let mut state = read_record::<ProjectState>(&files.state())?.unwrap_or_default();
    check(context, request, &files)?;
    // Nobody removes images while one is about to be used.
    let images = use_images(context, request.verb)?;
    let image = Stage::Image.run(context.reporter, || image(context, request, &state, content_id))?;
    course.rebuilt |= std::mem::take(&mut request.rebuild) || is_other_version(request, &state);
    versions::remember_wanted(&mut state, &files, request.agent_version.as_ref())?;

    let workspace = guest::workspace(&request.project, context.identity, request.settings.workspace_quota)?;
    let owner = (workspace.guest_uid, workspace.guest_gid);
    let home = make_home(context, &target, &files, &mut state, &image.digest, owner)?;

    let begin = Instant::now();
    let mut name = sandbox_name(context, &target)?;
    let mut wanted = spec::spec(request, image.digest.clone(), home, workspace)?;
    let today = std::mem::replace(&mut wanted.name, name.clone());
    let mut existing = settled(context, request, &name, &wanted)?;
    let mut asleep = false;
    let with_added = live_ports::with_added(existing.as_ref(), &wanted);
    let plan =
        match decide(context, request, &course.answers, existing.as_ref(), &with_added, course.rebuilt)? {
            ControlFlow::Continue(plan) => plan,
            ControlFlow::Break(question) => return Ok(Outcome::Ask(question)),
        };
    // One that changes boots, with what the settings say alone.
    if plan == Plan::Start {
        wanted = with_added;
    }
    context.reporter.verbose(&format!("{name}: {plan:?}"));
    if mounts::starts(&plan) {
        mounts::check(&wanted.mounts)?;
    }
    match &plan {
        Plan::Wait => return Ok(Outcome::Unsettled),
        Plan::Refuse => return Err(refused(name, existing)),
        // Whoever decided that it stays so has told it.
        Plan::Use { .. } => go_on(context, request, &state, existing.as_mut(), &wanted, &plan)?,
        Plan::Wake { pending, kept } => {
            asleep = true;
            ports::check(context, existing.as_ref().map_or(&[], |info| &info.spec.ports), &[])?;
            if !kept {
                tell_pending(context, request, pending);
            }
        }
        Plan::Create
        | Plan::Recreate
        | Plan::StopAndRecreate
        | Plan::StopAndUpdate
        | Plan::Update
        | Plan::Start => {
            asleep = existing.as_ref().is_some_and(|info| info.saved_memory.is_some()) && plan == Plan::Start;
            let changes = existing.as_ref().map(|info| drift(&info.spec, &wanted)).unwrap_or_default();
            check_ports(context, existing.as_ref(), &wanted)?;
            let choice = match home::ask(context, &course.answers, &plan, &state, &wanted, &changes)? {
                ControlFlow::Continue(choice) => choice,
                ControlFlow::Break(question) => return Ok(Outcome::Ask(question)),
            };
            tell_nothing_left(context, course, &plan);
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
            host_path_anew(&plan, &files)?;
            if !settle(context, &plan, &wanted)? {
                return Ok(Outcome::Unsettled);
            }
        }
    }
    if !matches!(plan, Plan::Use { kept: true, .. } | Plan::Wake { kept: true, .. }) {
        record(&files, &mut state, &image)?;
    }
    if !matches!(plan, Plan::Use { .. }) {
        check_ssh_agent(context, request, &name)?;
        start(context, request, &name, asleep, &files, &mut state)?;
        (course.booted, course.rebuilt) = (true, false);
    }
    drop(images);
    let outcome = keeper::lease_or_start(context, request, &name, &files)?;
    crash::point("the keeper has a client");
    // Not before the keeper is there: a command in the guest may wait for the ssh-agent, which the keeper hands in.
    if brings_image(&plan) && matches!(outcome, LeaseOutcome::Leased(_)) {
        versions::record_image(context, request, &name, &image.digest, &files, &mut state)?;
    }
    drop(lock);
    Stage::Sandbox.report(context.reporter, done(&plan), begin.elapsed());
    joined(context, request, &name, outcome)
}

fn joined(
    context: &Context<'_>,
    request: &UpRequest,
    name: &SandboxName,
    outcome: LeaseOutcome,
) -> Result<Outcome> {
    match outcome {
        LeaseOutcome::Leased(lease) => finish(context, request, name, lease),
        LeaseOutcome::Draining(keeper) => Ok(Outcome::Stopping(keeper)),
        LeaseOutcome::NoKeeper => Ok(Outcome::Unsettled),
    }
}

/// The file of the home volume, which is made and recorded where there is none.
fn make_home(
    context: &Context<'_>,
    target: &Target,
    files: &SandboxFiles,
    state: &mut ProjectState,
    image: &Digest,
    owner: (u32, u32),
) -> Result<PathBuf> {
    let (volume, home, made) = Stage::HomeVolume
        .run(context.reporter, || home_volume::ensure(context, target, state, image, owner))?;
    if made {
        home::record(files, state, &volume, &home, image)?;
    }
    Ok(home)
}

fn refused(name: SandboxName, existing: Option<SandboxInfo>) -> LifecycleError {
    let status = existing.map_or(Status::Created, |info| info.status);
    LifecycleError::NotUsable { name, status }
}

/// The user wanted to keep what was there, and it is gone by now.
fn tell_nothing_left(context: &Context<'_>, course: &Course, plan: &Plan) {
    if course.answers.keep() && *plan != Plan::Start {
        context.reporter.info("there is nothing left to keep, so the sandbox starts with what changed");
    }
}

/// A new root disk has nothing of what was done on the old one.
fn host_path_anew(plan: &Plan, files: &SandboxFiles) -> Result<()> {
    if matches!(plan, Plan::Create | Plan::Recreate | Plan::StopAndRecreate) {
        host_path::begin_anew(files)?;
    }
    Ok(())
}

/// Those that the sandbox itself has while it runs are its own.
fn check_ports(context: &Context<'_>, existing: Option<&SandboxInfo>, wanted: &SandboxSpec) -> Result<()> {
    let live = existing.filter(|info| !info.status.is_at_rest());
    ports::check(context, &wanted.ports, live.map_or(&[], |info| &info.spec.ports))
}

/// What wakes as it was has the image that it had, and so has what runs.
const fn brings_image(plan: &Plan) -> bool {
    !matches!(plan, Plan::Use { .. } | Plan::Wake { kept: true, .. })
}

/// What is there, once it has what can change while it runs.
fn settled(
    context: &Context<'_>,
    request: &UpRequest,
    name: &SandboxName,
    wanted: &SandboxSpec,
) -> Result<Option<SandboxInfo>> {
    let mut existing = live_ports::inspect(context, name, wanted)?;
    live_secrets::settle_there(context, request, existing.as_mut(), wanted)?;
    Ok(existing)
}

/// What cannot be recorded or mounted is not begun, and nothing is built or ended for it.
fn check(context: &Context<'_>, request: &UpRequest, files: &SandboxFiles) -> Result<()> {
    check_space(&files.dir, STATE_SPACE)?;
    check_space(&context.layout.volumes(), DATA_SPACE)?;
    let there = context.runtime.inspect(&sandbox_name(context, &request.target())?)?;
    if mounts::needed(there.as_ref().map(|info| &info.status)) {
        mounts::check(&request.settings.mounts)?;
    }
    Ok(())
}

/// Gives what stays up all that it can have now, and says what it does not have yet.
fn go_on(
    context: &Context<'_>,
    request: &UpRequest,
    state: &ProjectState,
    existing: Option<&mut SandboxInfo>,
    wanted: &SandboxSpec,
    plan: &Plan,
) -> Result<()> {
    let (Some(info), Plan::Use { pending, kept }) = (existing, plan) else { return Ok(()) };
    let pending = live_resources::settle(context, request, info, wanted, pending)?;
    if !kept {
        tell_used(context, request, state, &pending);
    }
    Ok(())
}

/// Says what the sandbox that runs does not have yet.
fn tell_used(context: &Context<'_>, request: &UpRequest, state: &ProjectState, pending: &[&'static str]) {
    let another_proxy = proxy::change(state, request).map(|change| change.setting);
    let pending: Vec<_> = pending.iter().copied().chain(another_proxy).collect();
    tell_pending(context, request, &pending);
}

fn start(
    context: &Context<'_>,
    request: &UpRequest,
    name: &SandboxName,
    asleep: bool,
    files: &SandboxFiles,
    state: &mut ProjectState,
) -> Result<()> {
    let step = context.reporter.begin(if asleep { "waking the sandbox" } else { "starting the sandbox" });
    // The runtime tries a boot that hangs a second time; what remains carries the console's last lines.
    crash::point("the sandbox is not started yet");
    context.runtime.start_with(name, &request.secret_values, request.proxies.as_ref())?;
    crash::point("the sandbox is started");
    step.finish(None);
    // Only now: one at rest may have moved to another runtime as it started.
    let uses_proxy = context.runtime.capabilities_for(name).is_ok_and(|can| can.proxy);
    tell_proxy(context, request, name, uses_proxy);
    // Nobody waits for a disk that has nothing new to write.
    if proxy::note(state, request, uses_proxy) {
        write_record(&files.state(), state)?;
    }
    Ok(())
}

/// A runtime that knows no proxy reaches nothing where there is no other way out.
fn tell_proxy(context: &Context<'_>, request: &UpRequest, name: &SandboxName, used: bool) {
    let Some(proxies) = &request.proxies else { return };
    if !used {
        let runtime = context.runtime.name_for(name).unwrap_or_else(|_| context.runtime.name());
        let text =
            format!("{runtime} does not use the proxy {}: the sandbox connects directly", proxies.other);
        context.reporter.info(&text);
    }
}

fn check_ssh_agent(context: &Context<'_>, request: &UpRequest, name: &SandboxName) -> Result<()> {
    if request.settings.ssh_agent.is_none() || context.runtime.capabilities_for(name)?.ssh_agent {
        return Ok(());
    }
    let runtime = context.runtime.name_for(name)?;
    Err(LifecycleError::NoSshAgent { name: name.clone(), runtime })
}

/// The user asks, with this very command, for another version of the agent than the sandbox has. What an
/// earlier one asked for waits until nothing is lost for it.
fn is_other_version(request: &UpRequest, state: &ProjectState) -> bool {
    let (wanted, image) = (&request.agent_version, &state.agent.image);
    let (Some(wanted), Some(image)) = (wanted, image) else { return false };
    state.agent.wanted.as_ref() != Some(wanted)
        && image.version.as_ref().is_some_and(|has| *has != wanted.version)
}

/// What came of a plan, in a few words.
const fn done(plan: &Plan) -> &'static str {
    match plan {
        Plan::Create => "made and started",
        Plan::Recreate | Plan::StopAndRecreate => "made anew and started",
        Plan::Update => "changed and started",
        Plan::StopAndUpdate => "changed and restarted",
        Plan::Start | Plan::Wake { .. } => "started",
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

/// Nobody uses it, or they were asked.
fn stop(context: &Context<'_>, plan: &Plan, wanted: &SandboxSpec) -> Result<()> {
    let what = match plan {
        Plan::StopAndRecreate => "stopping the sandbox to make it anew",
        Plan::StopAndUpdate => "stopping the sandbox to start it with what changed",
        _ => return Ok(()),
    };
    let step = context.reporter.begin(what);
    context.runtime.stop(&wanted.name, GRACE)?;
    step.finish(None);
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

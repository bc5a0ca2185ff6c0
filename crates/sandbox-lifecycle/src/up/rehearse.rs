//! What [`super::up`] would do, without the machine.

use sandbox_model::{Digest, Status, VolumeName};
use sandbox_state::{ProjectState, read_record};

use super::attach::IMAGE_FINGERPRINT;
use super::plan::{Plan, plan};
use super::stakes::{Stake, at_stake};
use super::{guest, home, live_ports, mounts, prepare, proxy, spec};
use crate::locks::{boot_lock, use_images};
use crate::{Change, Context, Result, UpRequest, drift, home_volume, sandbox_name, versions};

/// How far a rehearsal goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Nothing is made.
    Look,
    /// The image is built and loaded, and a home volume made where there is none.
    ImageAndHome,
}

/// What a run would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rehearsal {
    /// The image that the sandbox would have; `None` where it would be built first.
    pub image: Option<Digest>,
    /// The home that it would have; `None` where one would be made.
    pub home: Option<VolumeName>,
    /// `None` where there is no sandbox.
    pub status: Option<Status>,
    /// What would become of it: `would be started`.
    pub deed: &'static str,
    /// What differs from the sandbox that is there, as far as it is known without building the image.
    pub changes: Vec<Change>,
}

/// Says what a run would do. With [`Extent::Look`] no engine is asked and nothing changes.
pub fn rehearse(context: &Context<'_>, request: &UpRequest, extent: Extent) -> Result<Rehearsal> {
    let target = request.target();
    let acts = extent == Extent::ImageAndHome;
    let _lock = acts.then(|| boot_lock(context, &target, request.verb)).transpose()?;
    let files = context.layout.sandbox_state(&target.checkout, target.agent);
    let mut state = read_record::<ProjectState>(&files.state())?.unwrap_or_default();
    let content_id = context.images.content_id(context, &request.build_request())?;
    let image = if acts {
        let _images = use_images(context, request.verb)?;
        let image = prepare::image(context, request, &state, &content_id)?;
        versions::remember_wanted(&mut state, &files, request.agent_version.as_ref())?;
        Some(image.digest)
    } else {
        recorded(context, request, &state, &content_id)?
    };
    let workspace = guest::workspace(&request.project, context.identity, request.settings.workspace_quota)?;
    if let (true, Some(image)) = (acts, &image) {
        let owner = (workspace.guest_uid, workspace.guest_gid);
        let (volume, path, made) = home_volume::ensure(context, &target, &state, image, owner)?;
        if made {
            home::record(&files, &mut state, &volume, &path, image)?;
        }
    }
    let another_proxy = proxy::change(&state, request);
    let home = state.home_volume.filter(|name| context.layout.volume(name).exists());
    let existing = context.runtime.inspect(&sandbox_name(context, &target)?)?;
    // Where the image is not known, that it would be another is all that can be said of it.
    let digest = image.clone().or_else(|| existing.as_ref().map(|info| info.spec.image_digest.clone()));
    let mut changes = Vec::new();
    let mut deed = "would be made";
    if let (Some(info), Some(digest)) = (&existing, digest) {
        let path =
            home.as_ref().map_or_else(|| info.spec.home.path.clone(), |name| context.layout.volume(name));
        let mut wanted = spec::spec(request, digest, path, workspace)?;
        wanted.name.clone_from(&info.spec.name);
        let wanted = live_ports::with_added(Some(info), &wanted);
        changes = drift(&info.spec, &wanted);
        let alone = plan(Some((&info.status, &info.spec)), &wanted, false);
        let lost = at_stake(context, &target, info, &alone, &changes, request.rebuild);
        let plan = plan(Some((&info.status, &info.spec)), &wanted, lost.is_some());
        if mounts::starts(&plan) {
            mounts::check(&wanted.mounts)?;
        }
        deed = would(&plan, lost.as_ref());
        if info.status == Status::Running {
            changes.extend(another_proxy);
        }
    } else {
        mounts::check(&request.settings.mounts)?;
    }
    Ok(Rehearsal { image, home, status: existing.map(|info| info.status), deed, changes })
}

/// The recorded image, where nothing that it is built from changed and the runtime still has it.
fn recorded(
    context: &Context<'_>,
    request: &UpRequest,
    state: &ProjectState,
    content_id: &str,
) -> Result<Option<Digest>> {
    let same = state.fingerprints.get(IMAGE_FINGERPRINT).is_some_and(|recorded| recorded == content_id);
    let Some(digest) = state.image_digest.clone().filter(|_| same && !request.rebuild) else {
        return Ok(None);
    };
    let loaded = context.runtime.inspect_image(&request.build_request().reference())?;
    Ok(loaded.is_some_and(|image| image.digest == digest).then_some(digest))
}

const fn would(plan: &Plan, stake: Option<&Stake>) -> &'static str {
    match plan {
        Plan::Create => "would be made",
        Plan::Recreate => "would be made anew",
        Plan::StopAndRecreate => "would be stopped and made anew",
        Plan::StopAndUpdate => "would be stopped, changed and started",
        Plan::Update => "would be changed and started",
        Plan::Wake { kept: true, .. } => "would be woken as it is, for its memory is saved",
        Plan::Start | Plan::Wake { .. } => "would be started",
        Plan::Use { kept: true, .. } => match stake {
            Some(Stake::Programs) => "would be used as it is, for what runs in it would sleep and not end",
            _ => "would be used as it is, for others use it",
        },
        Plan::Use { .. } => "would be used",
        Plan::Wait => "would be waited for",
        Plan::Refuse => "takes no clients",
    }
}

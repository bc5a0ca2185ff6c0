use std::collections::BTreeMap;
use std::path::PathBuf;

use sandbox_agents::profile;
use sandbox_image::EngineSetting;
use sandbox_model::{ByteSize, Digest, ImageRef, SandboxName, Status, VolumeName, labels};
use sandbox_runtime::SandboxInfo;
use sandbox_state::{ProjectState, Stamp, is_locked, read_record};

use crate::{Context, Result, Target, owner, volumes};

/// Everything there was at one moment, as far as it bears on what may go.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Seconds since 1970.
    pub taken: i64,
    /// Those whose record can be read, whoever made them.
    pub sandboxes: Vec<SeenSandbox>,
    /// Names of sandboxes whose record cannot be read: they may use anything of theirs.
    pub broken: Vec<String>,
    /// Every home volume with a name of ours.
    pub volumes: Vec<SeenVolume>,
    /// What killed commands left of volumes they were making.
    pub leftovers: Vec<SeenLeftover>,
    /// Every reference that the runtime has.
    pub images: Vec<SeenImage>,
    /// By target; one without a state file is not in it.
    pub states: BTreeMap<Target, StateRecord>,
    /// The engine's images of ours that no name leads to any more.
    pub unnamed: Vec<SeenUnnamed>,
    /// Why the engine could not be asked, where it could not.
    pub engine_problem: Option<String>,
}

/// What of a sandbox bears on what may go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenSandbox {
    /// As the runtime has it.
    pub name: SandboxName,
    /// It carries a label of ours.
    pub ours: bool,
    /// It serves one task and is not a checkout's own.
    pub task: bool,
    /// From its labels. A sandbox of an earlier version has none.
    pub owner: Option<Target>,
    /// As it was then; one that nobody knows protects what it may use.
    pub status: Status,
    /// Seconds since 1970.
    pub updated: i64,
    /// The reference that it was made from: no sandbox loses the name of its image.
    pub image: ImageRef,
    /// The content that it was made from, whatever the name means now.
    pub digest: Digest,
    /// The files it mounts as disks.
    pub disks: Vec<PathBuf>,
    /// Bytes on disk, without home and image.
    pub size: ByteSize,
    /// What its saved memory takes of that, of one that sleeps.
    pub memory: Option<ByteSize>,
}

/// What of a home volume bears on whether it may go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenVolume {
    /// From which its owner is told, as it has no record of its own.
    pub name: VolumeName,
    /// The ext4 file, as sandboxes mount it.
    pub path: PathBuf,
    /// As the name tells it. Where it does not, the sandbox that mounts it says whose it is.
    pub owner: Option<Target>,
    /// Bytes on disk.
    pub size: ByteSize,
}

/// A folder beside the volumes with a half-made one, whose maker is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenLeftover {
    /// Absolute, on the host.
    pub path: PathBuf,
    /// Whose home it was to be.
    pub owner: Target,
    /// Bytes on disk.
    pub size: ByteSize,
}

/// One reference of the runtime. Several may mean the same content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenImage {
    /// What pruning removes: the content goes with the last name and sandbox that use it.
    pub reference: ImageRef,
    /// What the name means.
    pub digest: Digest,
    /// What the content takes in the runtime.
    pub size: ByteSize,
}

/// An image of the engine that has lost its name, as a rebuild leaves the one before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenUnnamed {
    /// By which the engine removes it.
    pub id: Digest,
    /// Seconds since 1970.
    pub created: i64,
    /// As the engine says it: layers that images share are in each of them.
    pub size: ByteSize,
}

/// What a state file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateRecord {
    /// Which volume is the current one; none yet where it is `None`.
    Current(Option<VolumeName>),
    /// It cannot be read: anything of its target may be the current one.
    Unreadable,
}

/// Looks at everything once. `engine` is the one to ask for images without a name; `None` leaves it out.
///
/// Fails only where the runtime cannot be asked: what is broken is in the snapshot as such, and an engine
/// that does not work is no hindrance to the rest.
pub fn snapshot(context: &Context<'_>, engine: Option<EngineSetting>) -> Result<Snapshot> {
    let list = context.runtime.list()?;
    let mut seen = Snapshot {
        taken: Stamp::now(),
        sandboxes: list.sandboxes.into_iter().map(|info| sandbox(context, info)).collect(),
        broken: list.broken.into_iter().map(|broken| broken.name).collect(),
        volumes: volumes::files(&context.layout)?.into_iter().map(volume).collect(),
        leftovers: leftovers(context)?,
        ..Snapshot::default()
    };
    for image in context.runtime.list_images()? {
        let (reference, digest) = (image.reference, image.digest);
        seen.images.push(SeenImage { reference, digest, size: image.size });
    }
    let owners = seen.volumes.iter().filter_map(|volume| volume.owner.clone());
    let targets = owners.chain(seen.sandboxes.iter().filter_map(|sandbox| sandbox.owner.clone()));
    for target in targets.collect::<Vec<_>>() {
        if let Some(record) = state(context, &target) {
            seen.states.insert(target, record);
        }
    }
    match engine.map(|engine| context.images.unnamed(context, engine)) {
        None => {}
        Some(Ok(images)) => seen.unnamed = images,
        Some(Err(error)) => seen.engine_problem = Some(crate::error::chain(&error)),
    }
    Ok(seen)
}

fn sandbox(context: &Context<'_>, info: SandboxInfo) -> SeenSandbox {
    let spec = info.spec;
    SeenSandbox {
        ours: spec.labels.keys().any(|key| key.starts_with(labels::PREFIX)),
        task: is_task(&spec),
        // The home of an agent that this program does not know would not be told apart from any other file.
        owner: Target::of(&spec).filter(|owner| profile(owner.agent).is_ok()),
        size: context.runtime.disk_usage(&spec.name).unwrap_or_default(),
        memory: info.saved_memory,
        status: info.status,
        updated: info.updated,
        image: spec.image,
        digest: spec.image_digest,
        disks: vec![spec.home.path],
        name: spec.name,
    }
}

/// The name tells where a label cannot: earlier versions set none.
pub(crate) fn is_task(spec: &sandbox_model::SandboxSpec) -> bool {
    spec.labels.contains_key(labels::TASK) || spec.name.as_str().starts_with("agents-sandbox-task-")
}

fn volume(file: volumes::VolumeFile) -> SeenVolume {
    let owner = owner::of_volume(&file.name).map(|(target, _)| target);
    SeenVolume { owner, size: file.used, path: file.path, name: file.name }
}

/// Whoever makes a volume holds its sandbox's lock meanwhile.
fn leftovers(context: &Context<'_>) -> Result<Vec<SeenLeftover>> {
    let mut leftovers = Vec::new();
    for (owner, path) in crate::home_volume::unfinished(&context.layout)? {
        let lock = context.layout.boot_lock(&owner.checkout, owner.agent);
        if !is_locked(&lock).unwrap_or(true) {
            let size = ByteSize::from_bytes(crate::storage::allocated(&path));
            leftovers.push(SeenLeftover { path, owner, size });
        }
    }
    Ok(leftovers)
}

/// `None` where nothing is recorded.
pub(super) fn state(context: &Context<'_>, target: &Target) -> Option<StateRecord> {
    let files = context.layout.sandbox_state(&target.checkout, target.agent);
    match read_record::<ProjectState>(&files.state()) {
        Ok(record) => record.map(|state| StateRecord::Current(state.home_volume)),
        Err(_) => Some(StateRecord::Unreadable),
    }
}

//! Another home for a sandbox: `reset` takes the image's, `migrate` puts the files of the one before on top.
//!
//! ```text
//! boot lock ─► image ─► new volume, aside ─► checked ─► named ─► state file ─► (old one removed)
//! ```
//!
//! Until the state file is written nothing has changed; what was made aside goes with a failure, and what a
//! killed process left goes with the next one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fs_err as fs;
use sandbox_model::{Digest, VolumeName};
use sandbox_state::{ProjectState, read_record, write_record};

use super::{VolumeError, copy, files, graft};
use crate::locks::{boot_lock, use_images};
use crate::up::IMAGE_FINGERPRINT;
use crate::{BuildRequest, Context, LifecycleError, Result, Target, build, home_volume, owner};

/// One wish for another home.
#[derive(Debug, Clone)]
pub struct Replacement {
    /// The image that the new home comes from; never built anew for this.
    pub build: BuildRequest,
    /// The volume to take over or away; the recorded one where it is `None`.
    pub volume: Option<VolumeName>,
    /// Remove that volume once the new one is recorded.
    pub remove_old: bool,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replaced {
    pub old: VolumeName,
    /// The current one from now on; a sandbox that runs mounts it when it next starts.
    pub new: VolumeName,
    /// The sandbox runs, on the old one.
    pub running: bool,
    pub removed_old: bool,
    /// Why the old one is still there although it should go.
    pub old_kept: Option<String>,
}

/// How a new volume is filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How<'a> {
    /// From the image's home alone.
    Fresh,
    /// Likewise, with the files of this volume on top. Nobody may write to it meanwhile.
    Over(&'a Path),
}

/// A completely new home from the image; what is in the current one is left behind with it.
pub fn reset(context: &Context<'_>, wish: &Replacement) -> Result<Replaced, VolumeError> {
    replace(context, wish, false, "volume reset")
}

/// A new home from the image with all files of the current one on top: with their owners, modes, times,
/// extended attributes, links and holes. A sandbox that runs is refused, for it writes to them.
pub fn migrate(context: &Context<'_>, wish: &Replacement) -> Result<Replaced, VolumeError> {
    replace(context, wish, true, "volume migrate")
}

fn replace(
    context: &Context<'_>,
    wish: &Replacement,
    over: bool,
    purpose: &str,
) -> Result<Replaced, VolumeError> {
    let target = Target { checkout: wish.build.project.checkout.clone(), agent: wish.build.agent };
    let _lock = boot_lock(context, &target, purpose)?;
    let state_file = context.layout.sandbox_state(&target.checkout, target.agent).state();
    let state = read_record::<ProjectState>(&state_file)?.unwrap_or_default();
    let recorded = state.home_volume.ok_or_else(|| VolumeError::NoHome(target.clone()))?;
    let old = wish.volume.clone().unwrap_or(recorded);
    let path = usable(context, &target, &old)?;
    let users = context.runtime.list()?.sandboxes;
    let live = users.iter().filter(|info| info.spec.home.path == path && !info.status.is_at_rest());
    let running = live.map(|info| info.spec.name.clone()).next();
    if let (true, Some(name)) = (over, &running) {
        return Err(VolumeError::Running(name.clone()));
    }

    let request = BuildRequest { rebuild: false, ..wish.build.clone() };
    let _images = use_images(context, purpose)?;
    let content_id = context.images.content_id(context, &request)?;
    let image = context.images.ensure(context, &request)?;
    build::load(context, &request, &image)?;
    let dev = sandbox_image::guest_user(context.identity.uid, context.identity.gid);
    let how = if over { How::Over(&path) } else { How::Fresh };
    let (new, new_path) = make(context, &target, &image.digest, dev, how)?;
    let fresh = ProjectState {
        home_volume: Some(new.clone()),
        image_digest: Some(image.digest),
        fingerprints: BTreeMap::from([(IMAGE_FINGERPRINT.into(), content_id)]),
    };
    if let Err(error) = write_record(&state_file, &fresh) {
        fs::remove_file(&new_path)?;
        return Err(error.into());
    }
    let kept = wish.remove_old.then(|| remove_old(context, &path, &new_path));
    Ok(Replaced {
        old,
        new,
        running: running.is_some(),
        removed_old: matches!(kept, Some(Ok(()))),
        old_kept: kept.and_then(Result::err).map(|error| crate::error::chain(&error)),
    })
}

/// The file of a volume that is the target's own and looks whole.
fn usable(context: &Context<'_>, target: &Target, name: &VolumeName) -> Result<PathBuf, VolumeError> {
    let volume = files(&context.layout)?.into_iter().find(|volume| volume.name == *name);
    let volume = volume.ok_or_else(|| VolumeError::NoSuchVolume(name.clone()))?;
    if owner::of_volume(name).is_some_and(|(owner, _)| owner != *target) {
        return Err(VolumeError::Foreign(name.clone()));
    }
    match volume.problem {
        None => Ok(volume.path),
        Some(problem) => Err(LifecycleError::HomeVolume { path: volume.path, problem }.into()),
    }
}

/// The sandbox at rest is told first, so that no record names a file that is gone.
fn remove_old(context: &Context<'_>, old: &Path, new: &Path) -> Result<(), VolumeError> {
    for info in context.runtime.list()?.sandboxes {
        if info.spec.home.path == old {
            let mut spec = info.spec;
            spec.home.path = new.into();
            context.runtime.update(&spec)?;
        }
    }
    Ok(fs::remove_file(old)?)
}

/// Makes a volume, whole and checked, and gives it its name. The caller holds the boot lock, uses the image
/// store, and records the name.
pub fn make(
    context: &Context<'_>,
    target: &Target,
    image: &Digest,
    dev: (u32, u32),
    how: How<'_>,
) -> Result<(VolumeName, PathBuf)> {
    let mut step = context.reporter.begin("making the home volume");
    let made = match how {
        How::Fresh => home_volume::create(context, target, image, dev)?,
        How::Over(old) => {
            // The one before is copied whole, which keeps everything about its files, and gets what it
            // lacks of the image's: the same as the image's home with its files on top.
            let unfinished = home_volume::begin(context, target, image, dev)?;
            step.detail("copying");
            copy::copy(old, &unfinished.file, |done| step.progress(done, None))?;
            step.detail("checking");
            graft::settle(&unfinished.file)?;
            graft::graft(&unfinished.home, &unfinished.file, dev)?;
            graft::verify(&unfinished.file)?;
            home_volume::finish(context, target, &unfinished)?
        }
    };
    step.finish(Some(made.0.as_str()));
    Ok(made)
}

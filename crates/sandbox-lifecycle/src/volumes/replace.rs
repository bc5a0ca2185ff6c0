//! Another home for a sandbox: `reset` takes the image's, `migrate` puts the files of the one before on top.
//!
//! ```text
//! boot lock ─► image ─► new volume, aside ─► checked ─► named ─► state file ─► (old one removed)
//! ```
//!
//! Until the state file is written nothing has changed; what was made aside goes with a failure, and what a
//! killed process left goes with the next one.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use fs_err as fs;
use sandbox_model::{CheckoutSlug, Digest, ImageRef, SandboxName, VolumeName};
use sandbox_state::{Lock, ProjectState, read_record, write_record};

use super::{VolumeError, copy, files, graft, rest};
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
    /// Names that the checkout had before: volumes of these are its own too.
    pub former: Vec<CheckoutSlug>,
    /// Remove that volume once the new one is recorded.
    pub remove_old: bool,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replaced {
    /// The one before, whether it is still there or not.
    pub old: VolumeName,
    /// The current one from now on; a sandbox that runs mounts it when it next starts.
    pub new: VolumeName,
    /// The sandbox runs, on the old one.
    pub running: bool,
    /// It was to go, and is gone.
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
/// extended attributes, links and holes. A sandbox that runs writes to them: one that nobody uses is stopped
/// first, and about any other [`crate::Decisions::running`] decides.
pub fn migrate(context: &Context<'_>, wish: &Replacement) -> Result<Replaced, VolumeError> {
    replace(context, wish, true, "volume migrate")
}

/// The volume that a wish would leave for a new one. Changes nothing.
pub fn replaceable(context: &Context<'_>, wish: &Replacement) -> Result<VolumeName, VolumeError> {
    let target = Target { checkout: wish.build.project.checkout.clone(), agent: wish.build.agent };
    let old = named(context, &target, wish)?;
    usable(context, &target, &old, wish)?;
    Ok(old)
}

/// Only a sandbox that has a home, or is given one, can get another.
fn named(context: &Context<'_>, target: &Target, wish: &Replacement) -> Result<VolumeName, VolumeError> {
    let state_file = context.layout.sandbox_state(&target.checkout, target.agent).state();
    let state = read_record::<ProjectState>(&state_file)?.unwrap_or_default();
    let named = wish.volume.clone().or(state.home_volume);
    named.ok_or_else(|| VolumeError::NoHome(target.clone()))
}

fn replace(
    context: &Context<'_>,
    wish: &Replacement,
    over: bool,
    purpose: &'static str,
) -> Result<Replaced, VolumeError> {
    let begun = Begun::new(context, wish, over, purpose)?;
    let how = if over { How::Over(&begun.path) } else { How::Fresh };
    let (new, new_path) = make(context, &begun.target, &begun.image, begun.dev, how)?;
    begun.record(context, new, &new_path)
}

/// The part that is the same for every kind of new home.
pub struct Begun {
    _boot: Lock,
    _images: Lock,
    pub target: Target,
    pub image: Digest,
    pub reference: ImageRef,
    /// Who `dev` is.
    pub dev: (u32, u32),
    pub path: PathBuf,
    old: VolumeName,
    content_id: String,
    running: bool,
    remove_old: bool,
}

impl Begun {
    /// Takes the locks, finds the old volume and gets the image. With `at_rest` nobody writes to the old
    /// volume from then on. No lock is held while a person is asked, and everything is looked at anew after that.
    pub fn new(
        context: &Context<'_>,
        wish: &Replacement,
        at_rest: bool,
        purpose: &'static str,
    ) -> Result<Self, VolumeError> {
        let target = Target { checkout: wish.build.project.checkout.clone(), agent: wish.build.agent };
        let mut agreed: Option<rest::Question> = None;
        let (boot, old, path, running) = loop {
            let boot = boot_lock(context, &target, purpose)?;
            let old = named(context, &target, wish)?;
            let path = usable(context, &target, &old, wish)?;
            let name = match user(context, &path)? {
                Some(name) if at_rest => name,
                there => break (boot, old, path, there.is_some()),
            };
            match rest::make_rest(context, &target, &name, &old, agreed.as_ref())? {
                ControlFlow::Break(question) => {
                    drop(boot);
                    question.ask(context)?;
                    agreed = Some(question);
                }
                ControlFlow::Continue(()) => match user(context, &path)? {
                    Some(name) => return Err(VolumeError::Running(name)),
                    None => break (boot, old, path, false),
                },
            }
        };
        let request = BuildRequest { rebuild: false, ..wish.build.clone() };
        let images = use_images(context, purpose)?;
        let content_id = context.images.content_id(context, &request)?;
        let image = context.images.ensure(context, &request)?;
        build::load(context, &request, &image)?;
        Ok(Self {
            _boot: boot,
            _images: images,
            target,
            image: image.digest,
            reference: request.reference(),
            dev: sandbox_image::guest_user(context.identity.uid, context.identity.gid),
            path,
            old,
            content_id,
            running,
            remove_old: wish.remove_old,
        })
    }

    /// Makes a volume that is whole the current one. This is the moment that counts.
    pub fn record(
        self,
        context: &Context<'_>,
        new: VolumeName,
        new_path: &Path,
    ) -> Result<Replaced, VolumeError> {
        let files = context.layout.sandbox_state(&self.target.checkout, self.target.agent);
        let known = read_record::<ProjectState>(&files.state())?.unwrap_or_default();
        let fresh = ProjectState {
            agent: known.agent,
            home_volume: Some(new.clone()),
            image_digest: Some(self.image),
            fingerprints: BTreeMap::from([(IMAGE_FINGERPRINT.into(), self.content_id)]),
        };
        if let Err(error) = write_record(&files.state(), &fresh) {
            home_volume::remove_unrecorded(&files, &new, new_path)?;
            return Err(error.into());
        }
        let kept = self.remove_old.then(|| remove_old(context, &self.path, new_path));
        Ok(Replaced {
            old: self.old,
            new,
            running: self.running,
            removed_old: matches!(kept, Some(Ok(()))),
            old_kept: kept.and_then(Result::err).map(|error| crate::error::chain(&error)),
        })
    }
}

/// A sandbox that mounts the volume and is not at rest.
fn user(context: &Context<'_>, volume: &Path) -> Result<Option<SandboxName>, VolumeError> {
    let mut live = context.runtime.list()?.sandboxes;
    live.retain(|info| info.spec.home.path == volume && !info.status.is_at_rest());
    Ok(live.into_iter().map(|info| info.spec.name).next())
}

/// The file of a volume that is the target's own and looks whole.
fn usable(
    context: &Context<'_>,
    target: &Target,
    name: &VolumeName,
    wish: &Replacement,
) -> Result<PathBuf, VolumeError> {
    let volume = files(&context.layout)?.into_iter().find(|volume| volume.name == *name);
    let volume = volume.ok_or_else(|| VolumeError::NoSuchVolume(name.clone()))?;
    let own = |owner: &Target| {
        owner.agent == target.agent
            && (owner.checkout == target.checkout || wish.former.contains(&owner.checkout))
    };
    if owner::of_volume(name).is_some_and(|(owner, _)| !own(&owner)) {
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

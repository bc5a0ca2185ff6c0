use sandbox_model::{Digest, ImageRef};
use sandbox_state::{ProjectState, crash, read_record};

use crate::images::EngineImage;
use crate::locks::{boot_lock, use_images};
use crate::{BuildRequest, Context, Result, versions};

/// A runner image that is ready in the engine and in the runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Built {
    /// Its name in the engine and in the runtime.
    pub reference: ImageRef,
    /// What it holds: the same in both.
    pub digest: Digest,
    /// It was built just now; otherwise nothing had changed.
    pub built: bool,
}

/// Builds the runner image where something changed (or where `request.rebuild`) and loads it into the
/// runtime. Running sandboxes keep theirs.
pub fn build(context: &Context<'_>, request: &BuildRequest) -> Result<Built> {
    let images = use_images(context, "build")?;
    let image = context.images.ensure(context, request)?;
    load(context, request, &image)?;
    // A boot lock is never taken after this one.
    drop(images);
    remember(context, request)?;
    Ok(Built { reference: request.reference(), digest: image.digest, built: image.built })
}

fn remember(context: &Context<'_>, request: &BuildRequest) -> Result<()> {
    let target = request.target();
    if versions::wanted_version(&context.layout, &target, false)? == request.agent_version {
        return Ok(());
    }
    let _lock = boot_lock(context, &target, "build")?;
    let files = context.layout.sandbox_state(&target.checkout, target.agent);
    let mut state = read_record::<ProjectState>(&files.state())?.unwrap_or_default();
    versions::remember_wanted(&mut state, &files, request.agent_version.as_ref())
}

/// Hands an engine's image to the runtime, unless it has it under that name.
pub(crate) fn load(context: &Context<'_>, request: &BuildRequest, image: &EngineImage) -> Result<()> {
    let reference = request.reference();
    let loaded = context.runtime.inspect_image(&reference)?;
    if loaded.is_some_and(|loaded| loaded.digest == image.digest) {
        return Ok(());
    }
    let mut step = context.reporter.begin("loading the image");
    let mut archive = context.images.archive(context, request)?;
    let info =
        context.runtime.load_image(&reference, &image.digest, archive.as_mut(), &mut |done, total| {
            step.progress(done, total);
        })?;
    step.finish(Some(&info.size.human()));
    crash::point("the image is loaded");
    Ok(())
}

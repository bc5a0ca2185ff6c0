use sandbox_model::{ByteSize, ImageRef, SandboxName};

use crate::locks::{Patience, remove_images};
use crate::{Context, LifecycleError, Result};

/// What became of an image's content when one of its names went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemovedImage {
    /// It went too: bytes on disk.
    Freed(ByteSize),
    /// It has these names as well, and stays.
    Named(Vec<ImageRef>),
}

/// Removes one image from the runtime, or one of the names of a content that has several. Whoever needs it next builds
/// or loads it again.
///
/// A name that a sandbox was made from, and the last name of a content that a sandbox has, whatever that sandbox does,
/// is [`LifecycleError::ImageInUse`]. Waits for those who make something of images just now. `dry_run` only finds out.
pub fn remove_image(context: &Context<'_>, reference: &ImageRef, dry_run: bool) -> Result<RemovedImage> {
    let _lock = remove_images(context, "image remove", Patience::Wait)?;
    let image = context.runtime.inspect_image(reference)?;
    let image = image.ok_or_else(|| LifecycleError::NoSuchImage(reference.clone()))?;
    let all = context.runtime.list_images()?;
    let others =
        all.into_iter().filter(|other| other.digest == image.digest && other.reference != *reference);
    let names: Vec<ImageRef> = others.map(|other| other.reference).collect();
    let list = context.runtime.list()?.sandboxes;
    let uses = list.iter().filter(|info| {
        info.spec.image == *reference || (names.is_empty() && info.spec.image_digest == image.digest)
    });
    let sandboxes: Vec<SandboxName> = uses.map(|info| info.spec.name.clone()).collect();
    if !sandboxes.is_empty() {
        return Err(LifecycleError::ImageInUse { image: reference.clone(), sandboxes });
    }
    if !dry_run {
        context.runtime.remove_image(reference)?;
    }
    Ok(if names.is_empty() { RemovedImage::Freed(image.size) } else { RemovedImage::Named(names) })
}

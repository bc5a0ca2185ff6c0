use sandbox_model::{ByteSize, ImageRef, SandboxName};
use sandbox_runtime::ImageInfo;

use crate::locks::{Patience, remove_images};
use crate::{Context, LifecycleError, Result};

/// Removes one image from the runtime, and returns the bytes on disk that are free then: none where another
/// name has the same content. Whoever needs it next builds or loads it again. One that a sandbox uses, whatever that does, is
/// [`LifecycleError::ImageInUse`]. Waits for those who make something of images just now. `dry_run` only
/// finds out.
pub fn remove_image(context: &Context<'_>, reference: &ImageRef, dry_run: bool) -> Result<ByteSize> {
    let _lock = remove_images(context, "image remove", Patience::Wait)?;
    let image = context.runtime.inspect_image(reference)?;
    let image = image.ok_or_else(|| LifecycleError::NoSuchImage(reference.clone()))?;
    let list = context.runtime.list()?.sandboxes;
    let uses =
        list.iter().filter(|info| info.spec.image == *reference || info.spec.image_digest == image.digest);
    let sandboxes: Vec<SandboxName> = uses.map(|info| info.spec.name.clone()).collect();
    if !sandboxes.is_empty() {
        return Err(LifecycleError::ImageInUse { image: reference.clone(), sandboxes });
    }
    let same = |other: &ImageInfo| other.digest == image.digest && other.reference != *reference;
    let shared = context.runtime.list_images()?.iter().any(same);
    if !dry_run {
        context.runtime.remove_image(reference)?;
    }
    Ok(if shared { ByteSize::default() } else { image.size })
}

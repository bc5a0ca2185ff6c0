//! Where runner images come from, as the other use cases see it.

use std::io::Read;

use sandbox_model::Digest;
use sandbox_runtime::RuntimeError;

use crate::{BuildRequest, Context, LifecycleError, Result};

/// An image that an engine has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineImage {
    pub digest: Digest,
    /// The id of what it was built from; see [`Images::content_id`].
    pub content_id: String,
    /// It was built just now.
    pub built: bool,
}

/// The image room behind a seam, so that the rules of `up` can be shown without an engine.
pub trait Images: Send + Sync {
    /// The id of everything that decides the image's content. Contacts no engine; costs milliseconds.
    fn content_id(&self, context: &Context<'_>, request: &BuildRequest) -> Result<String>;

    /// Builds the image where the engine does not have it, or where `request.rebuild`.
    fn ensure(&self, context: &Context<'_>, request: &BuildRequest) -> Result<EngineImage>;

    /// The image as a docker archive.
    fn archive(
        &self,
        context: &Context<'_>,
        request: &BuildRequest,
        image: &EngineImage,
    ) -> Result<Box<dyn Read>>;
}

/// The image engines of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct EngineImages;

impl Images for EngineImages {
    fn content_id(&self, _context: &Context<'_>, request: &BuildRequest) -> Result<String> {
        Err(unavailable(request))
    }

    fn ensure(&self, _context: &Context<'_>, request: &BuildRequest) -> Result<EngineImage> {
        Err(unavailable(request))
    }

    fn archive(
        &self,
        _context: &Context<'_>,
        request: &BuildRequest,
        _image: &EngineImage,
    ) -> Result<Box<dyn Read>> {
        Err(unavailable(request))
    }
}

fn unavailable(request: &BuildRequest) -> LifecycleError {
    LifecycleError::Runtime(RuntimeError::NoSuchImage(request.reference()))
}

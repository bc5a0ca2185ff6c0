//! Sandboxes as local processes, for tests of whole flows. Only in builds for development: nothing is
//! confined.

use std::io::{Cursor, Read};
use std::sync::Arc;

use sandbox_lifecycle::{BuildRequest, Context, EngineImage, Images, LifecycleError};
use sandbox_runtime::Runtime;
use sandbox_runtime::contract::{ArchiveFile, ImageArchive};
use sandbox_runtime::fake::FakeRuntime;

use crate::error::CommandError;

/// The folder where such sandboxes are kept.
const FAKE: &str = "AGENTS_SANDBOX_FAKE_RUNTIME";

pub fn runtime() -> Result<Option<Arc<dyn Runtime>>, CommandError> {
    let Some(dir) = std::env::var_os(FAKE) else { return Ok(None) };
    Ok(Some(Arc::new(FakeRuntime::open(dir)?)))
}

pub fn images() -> Option<Arc<dyn Images>> {
    std::env::var_os(FAKE).map(|_| Arc::new(SmallImages) as Arc<dyn Images>)
}

/// An image with an empty home, made in memory.
#[derive(Debug)]
struct SmallImages;

fn small_image() -> Result<(sandbox_model::Digest, Vec<u8>), LifecycleError> {
    let folder = |path: &str| ArchiveFile { path: path.into(), content: Vec::new(), mode: 0o755, uid: 1000 };
    let image =
        ImageArchive { layers: vec![vec![folder("home/"), folder("home/dev/")]], ..ImageArchive::default() };
    Ok(image.build()?)
}

impl Images for SmallImages {
    fn content_id(&self, _context: &Context<'_>, _request: &BuildRequest) -> Result<String, LifecycleError> {
        Ok("small".into())
    }

    fn ensure(&self, _context: &Context<'_>, _request: &BuildRequest) -> Result<EngineImage, LifecycleError> {
        Ok(EngineImage { digest: small_image()?.0, built: false })
    }

    fn archive(
        &self,
        _context: &Context<'_>,
        _request: &BuildRequest,
    ) -> Result<Box<dyn Read>, LifecycleError> {
        Ok(Box::new(Cursor::new(small_image()?.1)))
    }
}

//! Sandboxes as local processes, for tests of whole flows. Only in builds for development: nothing is
//! confined.

use std::io::{Cursor, Read};
use std::sync::Arc;

use sandbox_lifecycle::{BuildRequest, Context, EngineImage, Images, LifecycleError};
use sandbox_runtime::Runtime;
use sandbox_runtime::contract::{ArchiveFile, ImageArchive};
use sandbox_runtime::fake::FakeRuntime;

use crate::doctor::Finding;
use crate::error::CommandError;

/// The folder where such sandboxes are kept.
const FAKE: &str = "AGENTS_SANDBOX_FAKE_RUNTIME";

/// Names of checks, with commas, that are to find something missing.
const MISSING: &str = "AGENTS_SANDBOX_FAKE_MISSING";

pub fn is_wanted() -> bool {
    std::env::var_os(FAKE).is_some()
}

/// Processes need nothing of this computer; a test may wish something away.
pub fn findings() -> Vec<Finding> {
    let missing = std::env::var(MISSING).unwrap_or_default();
    let names =
        ["QEMU", "image engine"].into_iter().filter(|name| missing.split(',').any(|wish| wish == *name));
    names.map(|name| Finding::missing(name, "wished away", format!("install {name}"))).collect()
}

pub fn runtime() -> Result<Option<Arc<dyn Runtime>>, CommandError> {
    let Some(dir) = std::env::var_os(FAKE) else { return Ok(None) };
    Ok(Some(Arc::new(FakeRuntime::open(dir)?)))
}

pub fn images() -> Option<Arc<dyn Images>> {
    std::env::var_os(FAKE).map(|_| Arc::new(SmallImages) as Arc<dyn Images>)
}

/// A file beside the fake's folder: another text in it is another image.
fn text() -> Vec<u8> {
    let dir = std::env::var_os(FAKE).map(std::path::PathBuf::from).unwrap_or_default();
    std::fs::read(dir.with_file_name("runtime-image")).unwrap_or_default()
}

/// An image with a home of nothing or one file, made in memory.
#[derive(Debug)]
struct SmallImages;

fn small_image(request: &BuildRequest) -> Result<(sandbox_model::Digest, Vec<u8>), LifecycleError> {
    let folder = |path: &str| ArchiveFile { path: path.into(), content: Vec::new(), mode: 0o755, uid: 1000 };
    let mut layer = vec![folder("home/"), folder("home/dev/")];
    let mut content = text();
    content.extend(request.agent_version.iter().flat_map(|wanted| wanted.version.bytes()));
    if !content.is_empty() {
        layer.push(ArchiveFile { path: "home/dev/.image".into(), content, mode: 0o644, uid: 1000 });
    }
    let image = ImageArchive { layers: vec![layer], ..ImageArchive::default() };
    Ok(image.build()?)
}

impl Images for SmallImages {
    fn content_id(&self, _context: &Context<'_>, request: &BuildRequest) -> Result<String, LifecycleError> {
        Ok(small_image(request)?.0.hex().to_string())
    }

    fn ensure(&self, _context: &Context<'_>, request: &BuildRequest) -> Result<EngineImage, LifecycleError> {
        Ok(EngineImage { digest: small_image(request)?.0, built: false })
    }

    fn archive(
        &self,
        _context: &Context<'_>,
        request: &BuildRequest,
    ) -> Result<Box<dyn Read>, LifecycleError> {
        Ok(Box::new(Cursor::new(small_image(request)?.1)))
    }
}

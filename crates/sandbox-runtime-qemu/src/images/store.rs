use std::io::Read;
use std::path::PathBuf;

use fs_err as fs;
use sandbox_image_store::{Content, Counted, ImageIndex, Places};
use sandbox_model::{ByteSize, Digest, ImageRef};
use sandbox_runtime::{BrokenImage, ImageInfo, Progress, RuntimeError};
use sandbox_state::{QemuLayout, Stamp, make_private_dir, write_record};

use super::{archive, rootfs};
use crate::error::from_state;
use crate::files::{image, own};

const UNFINISHED: &str = ".unfinished-";

#[derive(Debug)]
struct StorePlaces(QemuLayout);

impl Places for StorePlaces {
    fn images_lock(&self) -> PathBuf {
        own::images_lock(&self.0.dir)
    }

    fn references(&self) -> PathBuf {
        self.0.references()
    }

    fn content(&self, digest: &Digest) -> PathBuf {
        image::record(&self.0.image(digest))
    }
}

/// The images of this driver: one folder per content, one file per reference.
#[derive(Debug)]
pub struct ImageStore {
    index: ImageIndex<StorePlaces>,
}

impl ImageStore {
    /// Looks at nothing yet.
    pub fn new(layout: QemuLayout) -> Self {
        Self { index: ImageIndex { places: StorePlaces(layout) } }
    }

    fn layout(&self) -> &QemuLayout {
        &self.index.places.0
    }

    /// The read-only root of an image.
    pub fn rootfs(&self, digest: &Digest) -> Result<PathBuf, RuntimeError> {
        let path = image::rootfs(&self.layout().image(digest));
        if path.exists() { Ok(path) } else { Err(RuntimeError::NoSuchContent(digest.clone())) }
    }

    /// The environment an image sets for every command.
    pub fn env(&self, digest: &Digest) -> Result<Vec<(String, String)>, RuntimeError> {
        Ok(self.index.content(digest)?.env)
    }

    /// See [`sandbox_runtime::Runtime::inspect_image`].
    pub fn inspect(&self, reference: &ImageRef) -> Result<Option<ImageInfo>, RuntimeError> {
        self.index.inspect(reference)
    }

    /// See [`sandbox_runtime::Runtime::list_images`].
    pub fn list(&self) -> Result<Vec<ImageInfo>, RuntimeError> {
        self.index.list()
    }

    /// See [`sandbox_runtime::Runtime::broken_images`].
    pub fn broken(&self) -> Result<Vec<BrokenImage>, RuntimeError> {
        self.index.broken()
    }

    /// See [`sandbox_runtime::Runtime::load_image`].
    pub fn load(
        &self,
        reference: &ImageRef,
        digest: &Digest,
        archive: &mut dyn Read,
        progress: Progress<'_>,
    ) -> Result<ImageInfo, RuntimeError> {
        let _lock = self.index.lock()?;
        if !self.index.places.content(digest).exists() {
            self.unpack(digest, archive, progress)?;
        }
        self.index.refer(reference, digest)
    }

    fn unpack(
        &self,
        digest: &Digest,
        source: &mut dyn Read,
        progress: Progress<'_>,
    ) -> Result<(), RuntimeError> {
        let images = self.layout().images();
        make_private_dir(&images).map_err(from_state)?;
        self.clear_unfinished()?;
        let aside = tempfile::Builder::new().prefix(UNFINISHED).tempdir_in(&images)?;
        let members = aside.path().join("members");
        let content = aside.path().join("content");
        fs::create_dir(&members)?;
        fs::create_dir(&content)?;
        let unpacked = archive::unpack(&mut Counted::new(source, progress), &members)?;
        let rootfs = image::rootfs(&content);
        rootfs::write_rootfs(&unpacked.layers, &members, &rootfs, |_| {})?;
        let record = Content {
            env: unpacked.env,
            labels: unpacked.labels,
            created: Stamp::now(),
            size: ByteSize::from_bytes(fs::metadata(&rootfs)?.len()),
            layers: Vec::new(),
        };
        write_record(&image::record(&content), &record).map_err(from_state)?;
        // What a crash left without an image.json stands in the way of the rename.
        let place = self.layout().image(digest);
        if place.exists() {
            fs::remove_dir_all(&place)?;
        }
        fs::rename(&content, &place)?;
        fs::File::open(&images)?.sync_all()?;
        Ok(())
    }

    /// Loads that were killed; the store's lock is held, so none of them is under way.
    fn clear_unfinished(&self) -> Result<(), RuntimeError> {
        for entry in fs::read_dir(self.layout().images())? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
                fs::remove_dir_all(entry.path())?;
            }
        }
        Ok(())
    }

    /// Forgets a reference; the content goes unless another reference or one of `used` needs it. `None`
    /// when it is not known what is used.
    pub fn remove(&self, reference: &ImageRef, used: Option<&[Digest]>) -> Result<(), RuntimeError> {
        let _lock = self.index.lock()?;
        match self.index.forget(reference)? {
            Some(digest) => self.drop_content(&digest, used),
            None => Ok(()),
        }
    }

    /// Removes content that no reference and no sandbox needs any more.
    pub fn remove_unused(&self, digest: &Digest, used: Option<&[Digest]>) -> Result<(), RuntimeError> {
        let _lock = self.index.lock()?;
        self.drop_content(digest, used)
    }

    fn drop_content(&self, digest: &Digest, used: Option<&[Digest]>) -> Result<(), RuntimeError> {
        if !self.index.is_unused(digest, used)? {
            return Ok(());
        }
        match fs::remove_dir_all(self.layout().image(digest)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }
}

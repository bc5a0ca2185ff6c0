//! Images: `msb` keeps the content, under one reference per content; what our references mean is ours.

use std::io::Read;
use std::path::PathBuf;

use fs_err as fs;
use sandbox_image_store::{Content, Counted, ImageIndex, Places};
use sandbox_model::{ByteSize, Digest, ImageRef};
use sandbox_runtime::{BrokenImage, ImageInfo, Progress, RuntimeError};
use sandbox_state::{Stamp, write_record};

use crate::answers::{Image, ImageRow, parse};
use crate::call::{Msb, problem};
use crate::command;
use crate::error::from_state;
use crate::files::Files;

fn content(image: Image, created: i64) -> Content {
    let mut layers = image.layers;
    layers.sort_by_key(|layer| layer.position);
    let env = image.config.env.unwrap_or_default();
    Content {
        env: env
            .iter()
            .filter_map(|pair| pair.split_once('='))
            .map(|(key, value)| (key.into(), value.into()))
            .collect(),
        labels: image.config.labels.unwrap_or_default(),
        created,
        size: ByteSize::from_bytes(image.size_bytes),
        layers: layers.into_iter().map(|layer| layer.diff_id).collect(),
    }
}

impl Places for &Files {
    fn images_lock(&self) -> PathBuf {
        Files::images_lock(self)
    }

    fn references(&self) -> PathBuf {
        Files::references(self)
    }

    fn content(&self, digest: &Digest) -> PathBuf {
        Files::content(self, digest)
    }
}

/// The images of one private runtime.
#[derive(Debug)]
pub struct Images<'a> {
    index: ImageIndex<&'a Files>,
}

impl<'a> Images<'a> {
    /// Looks at nothing yet.
    pub fn new(files: &'a Files) -> Self {
        Self { index: ImageIndex { places: files } }
    }

    /// What is known of a content that is loaded.
    pub fn content(&self, digest: &Digest) -> Result<Content, RuntimeError> {
        self.index.content(digest)
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
        msb: impl FnOnce() -> Result<Msb, RuntimeError>,
        reference: &ImageRef,
        digest: &Digest,
        archive: &mut dyn Read,
        progress: Progress<'_>,
    ) -> Result<ImageInfo, RuntimeError> {
        let _lock = self.index.lock()?;
        if !self.index.places.content(digest).exists() {
            self.hand_over(&msb()?, digest, &mut Counted::new(archive, progress))?;
        }
        self.index.refer(reference, digest)
    }

    fn hand_over(&self, msb: &Msb, digest: &Digest, archive: &mut dyn Read) -> Result<(), RuntimeError> {
        let said = msb.feed(&command::load(digest), archive, msb.patience.load)?;
        if said.code != Some(0) {
            return Err(match problem(&said.stderr) {
                // A full disk is not the archive's fault.
                text if text.contains("No space left") => RuntimeError::other(text),
                text if text.is_empty() => RuntimeError::BadArchive("`msb load` was ended".into()),
                text => RuntimeError::BadArchive(text),
            });
        }
        let answer = msb.run(&command::inspect_image(digest), msb.patience.ask)?;
        let image: Image = parse("image inspect", &answer)?;
        write_record(&self.index.places.content(digest), &content(image, Stamp::now()))
            .map_err(from_state)?;
        forget_foreign_names(msb)
    }

    /// Forgets a reference; the content goes unless another reference or one of `used` needs it. `None` when
    /// it is not known what is used.
    pub fn remove(
        &self,
        msb: impl FnOnce() -> Result<Msb, RuntimeError>,
        reference: &ImageRef,
        used: Option<&[Digest]>,
    ) -> Result<(), RuntimeError> {
        let _lock = self.index.lock()?;
        match self.index.forget(reference)? {
            Some(digest) => self.drop_content(msb, &digest, used),
            None => Ok(()),
        }
    }

    /// Removes content that no reference and no sandbox needs any more.
    pub fn remove_unused(
        &self,
        msb: impl FnOnce() -> Result<Msb, RuntimeError>,
        digest: &Digest,
        used: Option<&[Digest]>,
    ) -> Result<(), RuntimeError> {
        let _lock = self.index.lock()?;
        self.drop_content(msb, digest, used)
    }

    fn drop_content(
        &self,
        msb: impl FnOnce() -> Result<Msb, RuntimeError>,
        digest: &Digest,
        used: Option<&[Digest]>,
    ) -> Result<(), RuntimeError> {
        let record = self.index.places.content(digest);
        if !record.exists() || !self.index.is_unused(digest, used)? {
            return Ok(());
        }
        // The record goes first: a content that is half gone must not count as loaded.
        fs::remove_file(&record)?;
        let msb = msb()?;
        msb.run(&command::remove_image(&command::content_reference(digest)), msb.patience.ask).map(drop)
    }
}

/// An archive's own names were loaded too. They would keep a content that nobody needs.
fn forget_foreign_names(msb: &Msb) -> Result<(), RuntimeError> {
    let rows: Vec<ImageRow> = parse("image list", &msb.run(&command::list_images(), msb.patience.ask)?)?;
    let ours = |reference: &str| reference.contains(command::CONTENT_REPOSITORY);
    for row in rows.iter().filter(|row| !ours(&row.reference)) {
        msb.run(&command::remove_image(&row.reference), msb.patience.ask)?;
    }
    Ok(())
}

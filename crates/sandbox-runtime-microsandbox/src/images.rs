//! Images: `msb` keeps the content, under one reference per content; what our references mean is ours.

use std::collections::BTreeMap;
use std::io::Read;
use std::time::Duration;

use fs_err as fs;
use sandbox_model::{ByteSize, Digest, ImageRef};
use sandbox_runtime::{ImageInfo, Progress, RuntimeError};
use sandbox_state::{Lock, LockMode, Stamp, read_record, write_record};
use serde::{Deserialize, Serialize};

use crate::answers::{Image, ImageRow, parse};
use crate::call::{ASK, Msb, problem};
use crate::command;
use crate::error::from_state;
use crate::files::Files;

/// After the last byte `msb` merges the layers, which takes as long as their disk does.
const MERGE: Duration = Duration::from_mins(15);

/// One file of `contents/`: written when `msb` has the whole content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    pub env: Vec<(String, String)>,
    pub labels: BTreeMap<String, String>,
    /// Seconds since 1970.
    pub created: i64,
    pub size: ByteSize,
    /// Lowest first.
    pub layers: Vec<Digest>,
}

impl Content {
    fn new(image: Image, created: i64) -> Self {
        let mut layers = image.layers;
        layers.sort_by_key(|layer| layer.position);
        let env = image.config.env.unwrap_or_default();
        Self {
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
}

/// One file of `references/`.
#[derive(Debug, Serialize, Deserialize)]
struct Reference {
    reference: ImageRef,
    digest: Digest,
}

/// Counts what passes through, for progress.
struct Counted<'a, 'b> {
    inner: &'a mut dyn Read,
    done: u64,
    progress: Progress<'b>,
}

impl Read for Counted<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.done += count as u64;
        (self.progress)(self.done, None);
        Ok(count)
    }
}

#[derive(Debug)]
pub struct Images<'a> {
    pub files: &'a Files,
}

impl Images<'_> {
    fn lock(&self) -> Result<Lock, RuntimeError> {
        Lock::take(&self.files.images_lock(), LockMode::Exclusive, "image store", |_| {}).map_err(from_state)
    }

    /// What is known of a content that is loaded.
    pub fn content(&self, digest: &Digest) -> Result<Content, RuntimeError> {
        read_record(&self.files.content(digest))
            .map_err(from_state)?
            .ok_or_else(|| RuntimeError::NoSuchContent(digest.clone()))
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
        let _lock = self.lock()?;
        if !self.files.content(digest).exists() {
            self.hand_over(&msb()?, digest, &mut Counted { inner: archive, done: 0, progress })?;
        }
        let record = Reference { reference: reference.clone(), digest: digest.clone() };
        write_record(&self.files.reference(reference), &record).map_err(from_state)?;
        self.info(record)?.ok_or_else(|| RuntimeError::NoSuchContent(digest.clone()))
    }

    fn hand_over(&self, msb: &Msb, digest: &Digest, archive: &mut dyn Read) -> Result<(), RuntimeError> {
        let said = msb.feed(&command::load(digest), archive, MERGE)?;
        if said.code != Some(0) {
            return Err(match problem(&said.stderr) {
                // A full disk is not the archive's fault.
                text if text.contains("No space left") => RuntimeError::other(text),
                text if text.is_empty() => RuntimeError::BadArchive("`msb load` was ended".into()),
                text => RuntimeError::BadArchive(text),
            });
        }
        let image: Image = parse("image inspect", &msb.run(&command::inspect_image(digest), ASK)?)?;
        write_record(&self.files.content(digest), &Content::new(image, Stamp::now())).map_err(from_state)?;
        forget_foreign_names(msb)
    }

    fn info(&self, record: Reference) -> Result<Option<ImageInfo>, RuntimeError> {
        let content: Option<Content> =
            read_record(&self.files.content(&record.digest)).map_err(from_state)?;
        Ok(content.map(|content| ImageInfo {
            reference: record.reference,
            digest: record.digest,
            size: content.size,
            created: content.created,
            env: content.env,
            labels: content.labels,
        }))
    }

    pub fn inspect(&self, reference: &ImageRef) -> Result<Option<ImageInfo>, RuntimeError> {
        let record: Option<Reference> = read_record(&self.files.reference(reference)).map_err(from_state)?;
        record.map_or(Ok(None), |record| self.info(record))
    }

    fn references(&self) -> Result<Vec<Reference>, RuntimeError> {
        let entries = match fs::read_dir(self.files.references()) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        let mut records = Vec::new();
        for entry in entries {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "json") {
                records.extend(read_record::<Reference>(&path).map_err(from_state)?);
            }
        }
        records.sort_by(|a, b| a.reference.cmp(&b.reference));
        Ok(records)
    }

    pub fn list(&self) -> Result<Vec<ImageInfo>, RuntimeError> {
        let mut images = Vec::new();
        for record in self.references()? {
            images.extend(self.info(record)?);
        }
        Ok(images)
    }

    /// Forgets a reference; the content goes unless another reference or one of `used` needs it. `None` when
    /// it is not known what is used.
    pub fn remove(
        &self,
        msb: impl FnOnce() -> Result<Msb, RuntimeError>,
        reference: &ImageRef,
        used: Option<&[Digest]>,
    ) -> Result<(), RuntimeError> {
        let _lock = self.lock()?;
        let path = self.files.reference(reference);
        let Some(record): Option<Reference> = read_record(&path).map_err(from_state)? else {
            return Ok(());
        };
        fs::remove_file(&path)?;
        self.drop_content(msb, &record.digest, used)
    }

    /// Removes content that no reference and no sandbox needs any more.
    pub fn remove_unused(
        &self,
        msb: impl FnOnce() -> Result<Msb, RuntimeError>,
        digest: &Digest,
        used: Option<&[Digest]>,
    ) -> Result<(), RuntimeError> {
        let _lock = self.lock()?;
        self.drop_content(msb, digest, used)
    }

    fn drop_content(
        &self,
        msb: impl FnOnce() -> Result<Msb, RuntimeError>,
        digest: &Digest,
        used: Option<&[Digest]>,
    ) -> Result<(), RuntimeError> {
        let record = self.files.content(digest);
        let tagged = self.references()?.iter().any(|other| other.digest == *digest);
        if tagged || used.is_none_or(|used| used.contains(digest)) || !record.exists() {
            return Ok(());
        }
        // The record goes first: a content that is half gone must not count as loaded.
        fs::remove_file(&record)?;
        msb()?.run(&command::remove_image(&command::content_reference(digest)), ASK).map(drop)
    }
}

/// An archive's own names were loaded too. They would keep a content that nobody needs.
fn forget_foreign_names(msb: &Msb) -> Result<(), RuntimeError> {
    let rows: Vec<ImageRow> = parse("image list", &msb.run(&command::list_images(), ASK)?)?;
    let ours = |reference: &str| reference.contains(command::CONTENT_REPOSITORY);
    for row in rows.iter().filter(|row| !ours(&row.reference)) {
        msb.run(&command::remove_image(&row.reference), ASK)?;
    }
    Ok(())
}

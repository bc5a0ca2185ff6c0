use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;

use fs_err as fs;
use sandbox_model::{ByteSize, Digest, ImageRef};
use sandbox_runtime::{ImageInfo, Progress, RuntimeError};
use sandbox_state::{Lock, LockMode, QemuLayout, Stamp, make_private_dir, read_record, write_record};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{archive, rootfs};
use crate::error::from_state;

/// `image.json`.
#[derive(Debug, Serialize, Deserialize)]
struct ContentRecord {
    env: Vec<(String, String)>,
    labels: BTreeMap<String, String>,
    created: i64,
    size: ByteSize,
}

/// One file of `references/`.
#[derive(Debug, Serialize, Deserialize)]
struct ReferenceRecord {
    reference: ImageRef,
    digest: Digest,
}

#[derive(Debug)]
pub struct ImageStore {
    layout: QemuLayout,
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

impl ImageStore {
    pub fn new(layout: QemuLayout) -> Self {
        Self { layout }
    }

    fn lock(&self) -> Result<Lock, RuntimeError> {
        let path = self.layout.dir.join("images.lock");
        Lock::take(&path, LockMode::Exclusive, "image store", |_| {}).map_err(from_state)
    }

    fn content(&self, digest: &Digest) -> PathBuf {
        self.layout.image(digest).join("image.json")
    }

    /// The read-only root of an image.
    pub fn rootfs(&self, digest: &Digest) -> Result<PathBuf, RuntimeError> {
        let path = self.layout.image(digest).join("rootfs.erofs");
        if path.exists() { Ok(path) } else { Err(RuntimeError::NoSuchContent(digest.clone())) }
    }

    fn reference(&self, reference: &ImageRef) -> PathBuf {
        // References hold slashes and colons; the record inside tells the name.
        self.layout.references().join(hex::encode(Sha256::digest(reference.as_str())) + ".json")
    }

    /// See [`sandbox_runtime::Runtime::load_image`].
    pub fn load(
        &self,
        reference: &ImageRef,
        digest: &Digest,
        archive: &mut dyn Read,
        progress: Progress<'_>,
    ) -> Result<ImageInfo, RuntimeError> {
        let _lock = self.lock()?;
        if !self.content(digest).exists() {
            self.unpack(digest, archive, progress)?;
        }
        let record = ReferenceRecord { reference: reference.clone(), digest: digest.clone() };
        write_record(&self.reference(reference), &record).map_err(from_state)?;
        self.info(record)?.ok_or_else(|| RuntimeError::NoSuchContent(digest.clone()))
    }

    fn unpack(
        &self,
        digest: &Digest,
        source: &mut dyn Read,
        progress: Progress<'_>,
    ) -> Result<(), RuntimeError> {
        let images = self.layout.images();
        make_private_dir(&images).map_err(from_state)?;
        self.clear_unfinished()?;
        let aside = tempfile::Builder::new().prefix(UNFINISHED).tempdir_in(&images)?;
        let members = aside.path().join("members");
        let content = aside.path().join("content");
        fs::create_dir(&members)?;
        fs::create_dir(&content)?;
        let image = {
            let mut counted = Counted { inner: source, done: 0, progress };
            archive::unpack(&mut counted, &members)?
        };
        let rootfs = content.join("rootfs.erofs");
        rootfs::write_rootfs(&image.layers, &members, &rootfs, |_| {})?;
        let record = ContentRecord {
            env: image.env,
            labels: image.labels,
            created: Stamp::now(),
            size: ByteSize::from_bytes(fs::metadata(&rootfs)?.len()),
        };
        write_record(&content.join("image.json"), &record).map_err(from_state)?;
        // What a crash left without an image.json stands in the way of the rename.
        let place = self.layout.image(digest);
        if place.exists() {
            fs::remove_dir_all(&place)?;
        }
        fs::rename(&content, &place)?;
        fs::File::open(&images)?.sync_all()?;
        Ok(())
    }

    /// Loads that were killed; the store's lock is held, so none of them is under way.
    fn clear_unfinished(&self) -> Result<(), RuntimeError> {
        for entry in fs::read_dir(self.layout.images())? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
                fs::remove_dir_all(entry.path())?;
            }
        }
        Ok(())
    }

    fn info(&self, record: ReferenceRecord) -> Result<Option<ImageInfo>, RuntimeError> {
        let content: Option<ContentRecord> =
            read_record(&self.content(&record.digest)).map_err(from_state)?;
        Ok(content.map(|content| ImageInfo {
            reference: record.reference,
            digest: record.digest,
            size: content.size,
            created: content.created,
            env: content.env,
            labels: content.labels,
        }))
    }

    /// The environment an image sets for every command.
    pub fn env(&self, digest: &Digest) -> Result<Vec<(String, String)>, RuntimeError> {
        let content: Option<ContentRecord> = read_record(&self.content(digest)).map_err(from_state)?;
        content.map(|content| content.env).ok_or_else(|| RuntimeError::NoSuchContent(digest.clone()))
    }

    pub fn inspect(&self, reference: &ImageRef) -> Result<Option<ImageInfo>, RuntimeError> {
        let record: Option<ReferenceRecord> = read_record(&self.reference(reference)).map_err(from_state)?;
        record.map_or(Ok(None), |record| self.info(record))
    }

    /// The files of `references/`.
    fn reference_files(&self) -> Result<Vec<PathBuf>, RuntimeError> {
        let entries = match fs::read_dir(self.layout.references()) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        let mut files = Vec::new();
        for entry in entries {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "json") {
                files.push(path);
            }
        }
        Ok(files)
    }

    /// Every one of them, or an error: what is not known to be unused must not go.
    fn references(&self) -> Result<Vec<ReferenceRecord>, RuntimeError> {
        let mut records = Vec::new();
        for path in self.reference_files()? {
            records.extend(read_record::<ReferenceRecord>(&path).map_err(from_state)?);
        }
        Ok(records)
    }

    /// Those that can be read. Whoever uses another by its name is told what is wrong with it.
    pub fn list(&self) -> Result<Vec<ImageInfo>, RuntimeError> {
        let mut images = Vec::new();
        for path in self.reference_files()? {
            let record = read_record::<ReferenceRecord>(&path).map_err(from_state);
            match record.and_then(|record| record.map_or(Ok(None), |record| self.info(record))) {
                Ok(image) => images.extend(image),
                Err(error) => tracing::warn!("an image is not listed: {error}"),
            }
        }
        images.sort_by(|a, b| a.reference.cmp(&b.reference));
        Ok(images)
    }

    /// Forgets a reference; the content goes unless another reference or one of `used` needs it. `None`
    /// when it is not known what is used.
    pub fn remove(&self, reference: &ImageRef, used: Option<&[Digest]>) -> Result<(), RuntimeError> {
        let _lock = self.lock()?;
        let path = self.reference(reference);
        let Some(record): Option<ReferenceRecord> = read_record(&path).map_err(from_state)? else {
            return Ok(());
        };
        fs::remove_file(&path)?;
        self.drop_content(&record.digest, used)
    }

    /// Removes content that no reference and no sandbox needs any more.
    pub fn remove_unused(&self, digest: &Digest, used: Option<&[Digest]>) -> Result<(), RuntimeError> {
        let _lock = self.lock()?;
        self.drop_content(digest, used)
    }

    fn drop_content(&self, digest: &Digest, used: Option<&[Digest]>) -> Result<(), RuntimeError> {
        let tagged = self.references()?.iter().any(|other| other.digest == *digest);
        if !tagged && used.is_some_and(|used| !used.contains(digest)) {
            let place = self.layout.image(digest);
            match fs::remove_dir_all(&place) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
        }
        Ok(())
    }
}

const UNFINISHED: &str = ".unfinished-";

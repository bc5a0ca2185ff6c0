use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::path::Path;

use sandbox_model::{ByteSize, Digest, ImageRef};
use serde::{Deserialize, Serialize};

use super::layers;
use super::store::{Store, bytes_on_disk, now, read_json, write_json};
use crate::{ImageInfo, Progress, Result, RuntimeError};

const ARCHIVE: &str = "archive.tar";
const CONTENT: &str = "image.json";

/// What is known of an image's content.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Content {
    created: i64,
    env: Vec<(String, String)>,
    labels: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Reference {
    reference: ImageRef,
    digest: Digest,
}

pub(super) fn is_stored(store: &Store, digest: &Digest) -> bool {
    store.image(digest).join(CONTENT).is_file()
}

/// The variables an image sets.
pub(super) fn env(store: &Store, digest: &Digest) -> Result<Vec<(String, String)>> {
    Ok(content(store, digest)?.env)
}

fn content(store: &Store, digest: &Digest) -> Result<Content> {
    read_json(&store.image(digest).join(CONTENT))?.ok_or_else(|| RuntimeError::NoSuchContent(digest.clone()))
}

pub(super) fn load(
    store: &Store,
    reference: &ImageRef,
    digest: &Digest,
    archive: &mut dyn Read,
    progress: Progress<'_>,
) -> Result<ImageInfo> {
    let _lock = store.lock_images()?;
    if !is_stored(store, digest) {
        let half_made = tempfile::Builder::new().prefix(".new-").tempdir_in(store.images())?;
        let path = half_made.path().join(ARCHIVE);
        copy(archive, &mut File::create(&path)?, progress)?;
        let config = layers::read_config(&path)?;
        let content = Content { created: now(), env: config.env, labels: config.labels };
        write_json(&half_made.path().join(CONTENT), &content)?;
        fs::rename(half_made.keep(), store.image(digest))?;
    }
    let former = read_json::<Reference>(&store.reference(reference))?;
    let named = Reference { reference: reference.clone(), digest: digest.clone() };
    write_json(&store.reference(reference), &named)?;
    if let Some(former) = former {
        collect(store, &former.digest)?;
    }
    info(store, named)
}

fn copy(from: &mut dyn Read, to: &mut File, progress: Progress<'_>) -> Result<()> {
    let (mut buffer, mut done) = (vec![0; 1 << 16], 0);
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => {
                to.write_all(&buffer[..count])?;
                done += count as u64;
                progress(done, None);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn info(store: &Store, named: Reference) -> Result<ImageInfo> {
    let content = content(store, &named.digest)?;
    Ok(ImageInfo {
        size: ByteSize::from_bytes(bytes_on_disk(&store.image(&named.digest))?),
        reference: named.reference,
        digest: named.digest,
        created: content.created,
        env: content.env,
        labels: content.labels,
    })
}

pub(super) fn inspect(store: &Store, reference: &ImageRef) -> Result<Option<ImageInfo>> {
    read_json(&store.reference(reference))?.map(|named| info(store, named)).transpose()
}

fn references(store: &Store) -> Result<Vec<Reference>> {
    let mut references = Vec::new();
    for entry in fs::read_dir(store.references())? {
        references.extend(read_json(&entry?.path())?);
    }
    Ok(references)
}

pub(super) fn list(store: &Store) -> Result<Vec<ImageInfo>> {
    let mut images =
        references(store)?.into_iter().map(|named| info(store, named)).collect::<Result<Vec<_>>>()?;
    images.sort_by(|a, b| a.reference.cmp(&b.reference));
    Ok(images)
}

pub(super) fn remove(store: &Store, reference: &ImageRef) -> Result<()> {
    let _lock = store.lock_images()?;
    let path = store.reference(reference);
    let Some(named) = read_json::<Reference>(&path)? else { return Ok(()) };
    fs::remove_file(path)?;
    collect(store, &named.digest)
}

/// Removes content that no reference and no sandbox uses. The caller holds the images' lock.
pub(super) fn collect(store: &Store, digest: &Digest) -> Result<()> {
    if references(store)?.iter().any(|named| named.digest == *digest) {
        return Ok(());
    }
    for name in store.names()? {
        let Ok(name) = name.parse() else { continue };
        match store.read(&name) {
            Ok(Some(record)) if record.spec.image_digest == *digest => return Ok(()),
            Ok(_) => {}
            // It may be the one that uses it.
            Err(RuntimeError::BadRecord { .. }) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    match fs::remove_dir_all(store.image(digest)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

pub(super) fn export_dir(store: &Store, digest: &Digest, guest_path: &str, to: &Path) -> Result<()> {
    let archive = store.image(digest).join(ARCHIVE);
    if !archive.is_file() {
        return Err(RuntimeError::NoSuchContent(digest.clone()));
    }
    layers::unpack_dir(&archive, guest_path, to)
}

use std::path::PathBuf;

use fs_err as fs;
use sandbox_model::{Digest, ImageRef};
use sandbox_runtime::{BrokenImage, ImageInfo, RuntimeError};
use sandbox_state::{Lock, LockMode, read_record, write_record};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{Content, from_state};

/// Where a driver keeps its images.
pub trait Places {
    /// Held while images change.
    fn images_lock(&self) -> PathBuf;
    /// A folder with one small file per reference.
    fn references(&self) -> PathBuf;
    /// The record of a content.
    fn content(&self, digest: &Digest) -> PathBuf;
}

/// One file of `references/`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Reference {
    reference: ImageRef,
    digest: Digest,
}

/// The references and contents in a driver's places.
///
/// Nothing here is thrown away on a guess: while one reference cannot be read, every content may be its own, so
/// [`ImageIndex::is_unused`] is then an error.
#[derive(Debug)]
pub struct ImageIndex<P> {
    /// The driver's own folders and files.
    pub places: P,
}

impl<P: Places> ImageIndex<P> {
    /// Waits until nobody else changes images. Whoever changes some holds it for the whole of it.
    pub fn lock(&self) -> Result<Lock, RuntimeError> {
        Lock::take(&self.places.images_lock(), LockMode::Exclusive, "image store", |_| {}).map_err(from_state)
    }

    /// What is known of a content that is loaded.
    pub fn content(&self, digest: &Digest) -> Result<Content, RuntimeError> {
        read_record(&self.places.content(digest))
            .map_err(from_state)?
            .ok_or_else(|| RuntimeError::NoSuchContent(digest.clone()))
    }

    /// References hold slashes and colons; the record inside tells the name.
    fn file(&self, reference: &ImageRef) -> PathBuf {
        self.places.references().join(hex::encode(Sha256::digest(reference.as_str())) + ".json")
    }

    fn find(&self, reference: &ImageRef) -> Result<Option<Reference>, RuntimeError> {
        read_record(&self.file(reference)).map_err(from_state)
    }

    /// From now on `reference` means `digest`, which must be loaded. The lock is the caller's.
    pub fn refer(&self, reference: &ImageRef, digest: &Digest) -> Result<ImageInfo, RuntimeError> {
        let record = Reference { reference: reference.clone(), digest: digest.clone() };
        write_record(&self.file(reference), &record).map_err(from_state)?;
        self.info(record)?.ok_or_else(|| RuntimeError::NoSuchContent(digest.clone()))
    }

    /// Ends what `reference` means; the digest that it meant. The lock is the caller's.
    pub fn forget(&self, reference: &ImageRef) -> Result<Option<Digest>, RuntimeError> {
        let Some(record) = self.find(reference)? else { return Ok(None) };
        fs::remove_file(self.file(reference))?;
        Ok(Some(record.digest))
    }

    /// What `reference` means; `None` where it means nothing, or a content that is not loaded.
    pub fn inspect(&self, reference: &ImageRef) -> Result<Option<ImageInfo>, RuntimeError> {
        self.find(reference)?.map_or(Ok(None), |record| self.info(record))
    }

    fn info(&self, record: Reference) -> Result<Option<ImageInfo>, RuntimeError> {
        let content: Option<Content> =
            read_record(&self.places.content(&record.digest)).map_err(from_state)?;
        Ok(content.map(|content| ImageInfo {
            reference: record.reference,
            digest: record.digest,
            size: content.size,
            created: content.created,
            env: content.env,
            labels: content.labels,
        }))
    }

    fn files(&self) -> Result<Vec<PathBuf>, RuntimeError> {
        let entries = match fs::read_dir(self.places.references()) {
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
        files.sort();
        Ok(files)
    }

    /// What one file of `references/` says; `None` for one that is gone by now, or whose content is.
    fn read(&self, path: &std::path::Path) -> Result<Option<ImageInfo>, RuntimeError> {
        let record: Option<Reference> = read_record(path).map_err(from_state)?;
        record.map_or(Ok(None), |record| self.info(record))
    }

    /// Those that can be read, by their names; [`ImageIndex::broken`] has the others.
    pub fn list(&self) -> Result<Vec<ImageInfo>, RuntimeError> {
        let files = self.files()?;
        let mut images: Vec<ImageInfo> =
            files.iter().filter_map(|path| self.read(path).ok().flatten()).collect();
        images.sort_by(|a, b| a.reference.cmp(&b.reference));
        Ok(images)
    }

    /// Those that cannot be read, and why.
    pub fn broken(&self) -> Result<Vec<BrokenImage>, RuntimeError> {
        let files = self.files()?.into_iter();
        let problem = |path: PathBuf| match self.read(&path) {
            Ok(_) => None,
            Err(error) => Some(BrokenImage { problem: error.to_string(), reference_file: path }),
        };
        Ok(files.filter_map(problem).collect())
    }

    /// Whether no reference means `digest` and nothing in `used` needs it; never where it is not known what is
    /// used (`None`). A reference that cannot be read may mean any, and is an error.
    pub fn is_unused(&self, digest: &Digest, used: Option<&[Digest]>) -> Result<bool, RuntimeError> {
        for path in self.files()? {
            let record: Option<Reference> = read_record(&path).map_err(from_state)?;
            if record.is_some_and(|record| record.digest == *digest) {
                return Ok(false);
            }
        }
        Ok(used.is_some_and(|used| !used.contains(digest)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use sandbox_model::ByteSize;

    use super::*;

    struct Folder(PathBuf);

    impl Places for Folder {
        fn images_lock(&self) -> PathBuf {
            self.0.join("lock")
        }
        fn references(&self) -> PathBuf {
            self.0.join("references")
        }
        fn content(&self, digest: &Digest) -> PathBuf {
            self.0.join("contents").join(format!("{}.json", digest.hex()))
        }
    }

    fn digest(of: char) -> Digest {
        of.to_string().repeat(64).parse().unwrap()
    }

    fn index(dir: &Path, contents: &[char]) -> ImageIndex<Folder> {
        let index = ImageIndex { places: Folder(dir.into()) };
        for of in contents {
            let content = Content {
                env: Vec::new(),
                labels: BTreeMap::new(),
                created: 1,
                size: ByteSize::from_bytes(7),
                layers: Vec::new(),
            };
            write_record(&index.places.content(&digest(*of)), &content).unwrap();
        }
        index
    }

    fn names(index: &ImageIndex<Folder>) -> Vec<String> {
        index.list().unwrap().iter().map(|image| image.reference.to_string()).collect()
    }

    #[test]
    fn a_content_is_used_as_long_as_a_name_means_it() {
        let dir = tempfile::tempdir().unwrap();
        let index = index(dir.path(), &['a', 'b']);
        let [first, second] = ["repo/x:1", "repo/x:2"].map(|name| name.parse::<ImageRef>().unwrap());
        index.refer(&second, &digest('a')).unwrap();
        index.refer(&first, &digest('a')).unwrap();
        assert_eq!(names(&index), ["repo/x:1", "repo/x:2"]);
        assert!(!index.is_unused(&digest('a'), Some(&[])).unwrap());
        assert_eq!(index.forget(&first).unwrap(), Some(digest('a')));
        assert_eq!(index.forget(&first).unwrap(), None, "once more");
        assert!(!index.is_unused(&digest('a'), Some(&[])).unwrap());
        index.refer(&second, &digest('b')).unwrap();
        assert!(index.is_unused(&digest('a'), Some(&[])).unwrap());
        assert!(!index.is_unused(&digest('a'), Some(&[digest('a')])).unwrap(), "a sandbox has it");
        assert!(!index.is_unused(&digest('a'), None).unwrap(), "nobody knows what is used");
        assert!(matches!(index.refer(&first, &digest('c')), Err(RuntimeError::NoSuchContent(_))));
    }

    #[test]
    fn a_broken_reference_is_told_and_protects_every_content() {
        let dir = tempfile::tempdir().unwrap();
        let index = index(dir.path(), &['a', 'b']);
        let [first, second] = ["repo/x:1", "repo/x:2"].map(|name| name.parse::<ImageRef>().unwrap());
        index.refer(&first, &digest('a')).unwrap();
        index.refer(&second, &digest('b')).unwrap();
        assert_eq!(index.broken().unwrap(), []);
        let spoilt = index.file(&second);
        fs::write(&spoilt, "{").unwrap();
        assert_eq!(names(&index), ["repo/x:1"]);
        let broken = index.broken().unwrap();
        assert_eq!(broken.iter().map(|one| &one.reference_file).collect::<Vec<_>>(), [&spoilt]);
        assert!(!broken[0].problem.is_empty());
        assert!(index.is_unused(&digest('b'), Some(&[])).is_err());
        // A new build of that name mends it.
        index.refer(&second, &digest('b')).unwrap();
        assert_eq!(index.broken().unwrap(), []);
    }
}

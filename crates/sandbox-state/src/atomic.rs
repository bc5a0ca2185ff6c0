use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

use fs_err as fs;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{StateError, crash};

/// Makes a folder (and its parents) with mode 0700, and refuses one that someone else owns or may write.
pub fn make_private_dir(dir: &Path) -> Result<(), StateError> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|error| {
        std::io::Error::new(error.kind(), format!("cannot make the folder {}: {error}", dir.display()))
    })?;
    let metadata = fs::metadata(dir)?;
    let me = rustix::process::geteuid().as_raw();
    if metadata.uid() != me {
        let problem = format!("belongs to user {}, not to user {me} who runs this program", metadata.uid());
        return Err(StateError::Unsafe { path: dir.into(), problem });
    }
    if metadata.permissions().mode() & 0o022 != 0 {
        let problem = "may be written by other users".to_string();
        return Err(StateError::Unsafe { path: dir.into(), problem });
    }
    Ok(())
}

/// Writes a file of mode 0600 so that a reader sees the old content or the new, also after a power loss:
/// temporary file, fsync, rename, fsync of the folder.
pub fn write_private(path: &Path, content: &[u8]) -> Result<(), StateError> {
    let file = write_beside(path, content)?;
    crash::point("a record is written beside its place");
    file.persist(path).map_err(|error| {
        std::io::Error::new(error.error.kind(), format!("cannot replace {}: {}", path.display(), error.error))
    })?;
    sync_folder(path)?;
    crash::point("a record is in its place");
    Ok(())
}

/// As [`write_private`], but what is there already stays: `false` then.
pub fn write_private_once(path: &Path, content: &[u8]) -> Result<bool, StateError> {
    match write_beside(path, content)?.persist_noclobber(path) {
        Ok(_) => sync_folder(path).map(|()| true),
        Err(error) if error.error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(std::io::Error::new(
            error.error.kind(),
            format!("cannot make {}: {}", path.display(), error.error),
        )
        .into()),
    }
}

fn sync_folder(path: &Path) -> Result<(), StateError> {
    Ok(fs::File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()?)
}

fn write_beside(path: &Path, content: &[u8]) -> Result<tempfile::NamedTempFile, StateError> {
    let dir = path.parent().unwrap_or(Path::new("."));
    make_private_dir(dir)?;
    let mut file = tempfile::Builder::new()
        .prefix(".new-")
        .permissions(std::fs::Permissions::from_mode(0o600))
        .tempfile_in(dir)
        .map_err(|error| {
            std::io::Error::new(error.kind(), format!("cannot write in {}: {error}", dir.display()))
        })?;
    file.write_all(content).and_then(|()| file.as_file().sync_all()).map_err(|error| {
        std::io::Error::new(error.kind(), format!("cannot write {}: {error}", path.display()))
    })?;
    Ok(file)
}

fn is_yaml(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "yaml")
}

/// Writes a record as YAML (`.yaml`) or JSON (any other name), like [`write_private`].
pub fn write_record<T: Serialize>(path: &Path, record: &T) -> Result<(), StateError> {
    let malformed = |problem: String| StateError::Malformed { path: path.into(), problem };
    let text = if is_yaml(path) {
        serde_saphyr::to_string(record).map_err(|e| malformed(e.to_string()))?
    } else {
        serde_json::to_string_pretty(record).map_err(|e| malformed(e.to_string()))? + "\n"
    };
    write_private(path, text.as_bytes())
}

/// Reads a record; `None` when there is no file. What is there and is no whole record is an error that names
/// it: it is somebody's data, and is never taken for nothing.
pub fn read_record<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, StateError> {
    let malformed = |problem: String| StateError::Malformed { path: path.into(), problem };
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => {
            return match error.kind() {
                ErrorKind::NotFound => Ok(None),
                ErrorKind::IsADirectory => Err(malformed("a folder is in its place".into())),
                ErrorKind::InvalidData => Err(malformed("it is not text".into())),
                ErrorKind::PermissionDenied => {
                    let problem = "cannot be read by the user who runs this program".into();
                    Err(StateError::Unsafe { path: path.into(), problem })
                }
                _ => Err(error.into()),
            };
        }
    };
    if text.trim().is_empty() {
        return Err(malformed("it is empty".into()));
    }
    if is_yaml(path) {
        // A name that was cut short may be a name.
        if !text.ends_with('\n') {
            return Err(malformed("it ends in the middle of a line".into()));
        }
        serde_saphyr::from_str(&text).map(Some).map_err(|e| malformed(e.to_string()))
    } else {
        serde_json::from_str(&text).map(Some).map_err(|e| malformed(e.to_string()))
    }
}

/// The one field that every version of a record has.
#[derive(Deserialize)]
struct Version {
    version: u32,
}

/// As [`read_record`], of a record that says its version. One of a newer version than `known` is
/// [`StateError::Newer`], whatever else is in it.
pub fn read_versioned<T: DeserializeOwned>(path: &Path, known: u32) -> Result<Option<T>, StateError> {
    match read_record::<Version>(path)? {
        None => Ok(None),
        Some(Version { version }) if version > known => {
            Err(StateError::Newer { path: path.into(), version, known })
        }
        Some(_) => read_record(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_record_is_not_a_broken_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sandbox.json");
        let read = || read_versioned::<std::collections::BTreeMap<String, u32>>(&path, 2);
        assert!(read().unwrap().is_none());
        fs::write(&path, "{\"version\": 2, \"cpus\": 4}").unwrap();
        assert_eq!(read().unwrap().unwrap()["cpus"], 4);
        fs::write(&path, "{\"version\": 3, \"cpus\": [4]}").unwrap();
        let error = read().unwrap_err();
        assert!(matches!(error, StateError::Newer { version: 3, known: 2, .. }), "{error}");
        fs::write(&path, "{\"version\": 2, \"cpus\": [4]}").unwrap();
        assert!(matches!(read().unwrap_err(), StateError::Malformed { .. }));
    }

    #[test]
    fn records_come_back_and_are_private() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["deep/er/a.yaml", "b.json"] {
            let path = dir.path().join(name);
            assert_eq!(read_record::<Vec<String>>(&path).unwrap(), None);
            write_record(&path, &vec!["x: y", "2"]).unwrap();
            assert_eq!(read_record::<Vec<String>>(&path).unwrap().unwrap(), ["x: y", "2"]);
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert_eq!(fs::metadata(dir.path().join("deep")).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn what_is_written_once_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/key");
        assert!(write_private_once(&path, b"first").unwrap());
        assert!(!write_private_once(&path, b"second").unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"first");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn a_folder_that_others_may_write_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let open = dir.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, std::fs::Permissions::from_mode(0o777)).unwrap();
        let error = make_private_dir(&open).unwrap_err();
        assert!(matches!(error, StateError::Unsafe { .. }), "{error}");
    }

    #[test]
    fn half_a_record_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.yaml");
        write_record(&path, &vec!["home-20261129T165754"]).unwrap();
        let whole = fs::read(&path).unwrap();
        for end in 0..whole.len() {
            fs::write(&path, &whole[..end]).unwrap();
            let error = read_record::<Vec<String>>(&path).unwrap_err();
            assert!(matches!(error, StateError::Malformed { .. }), "{end}: {error}");
        }
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        let error = read_record::<Vec<String>>(&path).unwrap_err().to_string();
        assert!(error.contains("state.yaml: a folder is in its place"), "{error}");
    }

    #[test]
    fn a_broken_record_names_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.json");
        fs::write(&path, "{").unwrap();
        let error = read_record::<Vec<String>>(&path).unwrap_err().to_string();
        assert!(error.contains("state.json"), "{error}");
    }
}

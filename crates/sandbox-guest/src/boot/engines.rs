//! Container engines keep their layers as overlays, and an overlay cannot lie on another one: the root is one.

use std::io;
use std::path::Path;

use nix::mount::{MsFlags, mount};

use super::step;
use crate::machine::{BootError, Steps};

/// Where engines keep their layers, and the folder of the writable disk that takes its place.
const STORES: [(&str, &str); 2] = [("/var/lib/docker", "docker"), ("/var/lib/containers", "containers")];

/// Gives each engine that the image has a place on the writable disk itself, which is mounted at `disk`.
/// A store that came with the image, and is not empty, stays where it is.
pub fn bind(disk: &str, steps: &Steps) -> Result<(), BootError> {
    for (store, folder) in STORES.into_iter().filter(|(store, _)| is_empty_folder(Path::new(store))) {
        step(steps, format!("mounting the disk's own folder at {store}"), || {
            let source = format!("{disk}/{folder}");
            match fs_err::create_dir(&source) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
            Ok(mount(Some(source.as_str()), store, None::<&str>, MsFlags::MS_BIND, None::<&str>)?)
        })?;
    }
    Ok(())
}

/// Whether the image has an engine whose layers would lie on the root.
pub fn lack_a_place() -> bool {
    STORES.iter().any(|(store, _)| is_empty_folder(Path::new(store)))
}

/// A link is none: where it leads, the image or its user has decided.
fn is_empty_folder(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir())
        && fs_err::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_empty_folder_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs_err::create_dir(at("empty")).unwrap();
        fs_err::create_dir_all(at("full/image")).unwrap();
        std::os::unix::fs::symlink("empty", at("link")).unwrap();
        for (name, replaced) in [("empty", true), ("full", false), ("link", false), ("missing", false)] {
            assert_eq!(is_empty_folder(&at(name)), replaced, "{name}");
        }
    }
}

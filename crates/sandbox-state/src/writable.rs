//! Which folders of this computer a sandbox writes, or once wrote: whoever works in one can have left links there.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use fs_err as fs;

use crate::{Layout, StateError, write_private};

/// Remembers a folder, absolute and resolved, that a sandbox is about to get beside its checkout, to write.
///
/// For good: what was made in it outlasts the sandbox, and the settings that gave it.
pub fn remember_writable(layout: &Layout, folder: &Path) -> Result<(), StateError> {
    let marker = layout.writable_folder(folder);
    if marker.exists() {
        return Ok(());
    }
    write_private(&marker, folder.as_os_str().as_bytes())
}

/// Every such folder, and every folder that was the checkout of a sandbox. A broken record among them is none.
pub fn writable_folders(layout: &Layout) -> Result<Vec<PathBuf>, StateError> {
    let mut folders = Vec::new();
    for dir in [layout.checkout_roots(), layout.writable()] {
        let entries = match fs::read_dir(&dir) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let path = entry?.path();
            // What a crash left beside its place.
            if path.file_name().is_some_and(|name| name.as_bytes().starts_with(b".")) {
                continue;
            }
            let Ok(content) = fs::read(&path) else { continue };
            let folder = content.split(|byte| *byte == 0).next().unwrap_or_default();
            let folder = Path::new(OsStr::from_bytes(folder));
            if folder.is_absolute() {
                folders.push(folder.to_path_buf());
            }
        }
    }
    folders.sort();
    folders.dedup();
    Ok(folders)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Environment;

    #[test]
    fn folders_are_known_from_both_kinds_of_records_and_broken_ones_are_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let home = Some(dir.path().to_path_buf());
        let layout = Layout::new(&Environment { home, ..Environment::default() }).unwrap();
        assert_eq!(writable_folders(&layout).unwrap(), Vec::<PathBuf>::new());
        let odd = Path::new(OsStr::from_bytes(b"/d/odd \xff\n"));
        for folder in [Path::new("/d/data"), odd, Path::new("/d/data")] {
            remember_writable(&layout, folder).unwrap();
        }
        write_private(&layout.checkout_root(Path::new("/d/shop")), b"/d/shop\0shop-1\0shop-2").unwrap();
        write_private(&layout.checkout_root(Path::new("/d/a")), b"").unwrap();
        write_private(&layout.checkout_root(Path::new("/d/b")), b"not a path").unwrap();
        fs::create_dir(layout.checkout_root(Path::new("/d/c"))).unwrap();
        fs::write(layout.writable().join(".new-x"), "/d/half").unwrap();
        let expected = [Path::new("/d/data"), odd, Path::new("/d/shop")];
        assert_eq!(writable_folders(&layout).unwrap(), expected);
    }
}

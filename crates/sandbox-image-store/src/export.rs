//! One directory of an image, copied out to the host, from its EROFS layers.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

use fs_err as fs;
use microsandbox_image::erofs::{ErofsEntryKind, ErofsReader, ErofsTreeEntry};
use sandbox_runtime::RuntimeError;

/// Copies `guest_path` of the merged `layers` (lowest first) into `to`, which must be missing or empty.
///
/// Owners are kept where the caller may set them (root); an ordinary user's copies are the user's own.
/// Device nodes, sockets and fifos are left out: nobody's home needs one.
pub fn export_dir(layers: &[PathBuf], guest_path: &str, to: &Path) -> Result<(), RuntimeError> {
    let prefix = Path::new(guest_path.trim_matches('/'));
    fs::create_dir_all(to)?;
    let mut export =
        Export { prefix, to, as_root: rustix::process::geteuid().is_root(), folders: Vec::new() };
    let mut found = false;
    for layer in layers {
        let mut image = ErofsReader::new(fs::File::open(layer)?.into_parts().0)?;
        image.walk_entries::<RuntimeError, _>(|image, entry| {
            let here = export.apply(image, &entry)?;
            found = here.unwrap_or(found);
            Ok(())
        })?;
    }
    if !found {
        return Err(RuntimeError::BadArchive(format!("the image has no folder {guest_path}")));
    }
    // Folder modes are set last: a folder without write permission must still be filled.
    for (folder, mode) in export.folders.into_iter().rev() {
        if folder.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
            fs::set_permissions(&folder, std::fs::Permissions::from_mode(mode & 0o1777))?;
        }
    }
    Ok(())
}

struct Export<'a> {
    prefix: &'a Path,
    to: &'a Path,
    as_root: bool,
    folders: Vec<(PathBuf, u32)>,
}

impl Export<'_> {
    /// Applies one entry of one layer. `Some` tells that the folder itself, or one above it, is now there or
    /// not.
    fn apply(
        &mut self,
        image: &mut ErofsReader,
        entry: &ErofsTreeEntry,
    ) -> Result<Option<bool>, RuntimeError> {
        let path = entry.path.strip_prefix("/").unwrap_or(&entry.path);
        let Ok(inside) = path.strip_prefix(self.prefix) else {
            if self.prefix.starts_with(path) && (is_whiteout(entry) || is_opaque(entry)) {
                self.clear(self.to)?;
                return Ok(Some(false));
            }
            return Ok(None);
        };
        if inside.components().any(|part| !matches!(part, Component::Normal(_))) {
            return Err(RuntimeError::BadArchive(format!("`{}` leaves its folder", entry.path.display())));
        }
        let top = inside.as_os_str().is_empty();
        let target = if top { self.to.to_path_buf() } else { self.to.join(inside) };
        if is_whiteout(entry) {
            self.discard(&target, top)?;
            return Ok(top.then_some(false));
        }
        if entry.kind == ErofsEntryKind::Directory {
            if is_opaque(entry) {
                self.clear(&target)?;
            }
            if target.symlink_metadata().is_ok_and(|metadata| !metadata.is_dir()) {
                fs::remove_file(&target)?;
            }
            fs::create_dir_all(&target)?;
            self.folders.push((target.clone(), u32::from(entry.metadata.mode)));
        } else {
            self.discard(&target, false)?;
            if !copy(image, entry, &target)? {
                return Ok(None);
            }
        }
        if self.as_root {
            lchown(&target, Some(entry.metadata.uid), Some(entry.metadata.gid))?;
        }
        Ok(top.then_some(true))
    }

    fn discard(&mut self, target: &Path, keep: bool) -> Result<(), RuntimeError> {
        match target.symlink_metadata() {
            Ok(metadata) if metadata.is_dir() => {
                self.clear(target)?;
                if !keep {
                    fs::remove_dir(target)?;
                }
            }
            Ok(_) => fs::remove_file(target)?,
            Err(_) => {}
        }
        Ok(())
    }

    fn clear(&mut self, folder: &Path) -> Result<(), RuntimeError> {
        if !folder.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
            return Ok(());
        }
        self.folders.retain(|(known, _)| known == folder || !known.starts_with(folder));
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                fs::remove_dir_all(entry.path())?;
            } else {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }
}

/// A removed name is a character device with the numbers 0 and 0.
fn is_whiteout(entry: &ErofsTreeEntry) -> bool {
    entry.kind == ErofsEntryKind::CharDevice && entry.rdev.is_none_or(|numbers| numbers == (0, 0))
}

/// A folder that hides what lower layers have in it.
fn is_opaque(entry: &ErofsTreeEntry) -> bool {
    entry.kind == ErofsEntryKind::Directory && entry.is_opaque()
}

/// A file or a link; anything else is left out.
fn copy(image: &mut ErofsReader, entry: &ErofsTreeEntry, target: &Path) -> Result<bool, RuntimeError> {
    match entry.kind {
        ErofsEntryKind::RegularFile => {
            let mut file = fs::OpenOptions::new().write(true).create_new(true).open(target)?;
            std::io::copy(&mut image.file_data_reader(entry.nid)?, &mut file)?;
            let mode = u32::from(entry.metadata.mode) & 0o1777;
            file.set_permissions(std::fs::Permissions::from_mode(mode))?;
            let modified =
                SystemTime::UNIX_EPOCH + Duration::new(entry.metadata.mtime, entry.metadata.mtime_nsec);
            file.file().set_modified(modified)?;
            Ok(true)
        }
        ErofsEntryKind::Symlink => {
            symlink(OsStr::from_bytes(&image.read_link_by_nid(entry.nid)?), target)?;
            Ok(true)
        }
        _ => Ok(false),
    }
}

//! One directory of an image, copied out to the host.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

use fs_err as fs;
use microsandbox_image::erofs::{ErofsEntryKind, ErofsReader, ErofsTreeEntry};
use sandbox_runtime::RuntimeError;

/// Copies `guest_path` of the image into `to`, which must be missing or empty.
///
/// Owners are kept where the caller may set them (root); an ordinary user's copies are the user's own.
/// Device nodes, sockets and fifos are left out: nobody's home needs one.
pub fn export_dir(rootfs: &Path, guest_path: &str, to: &Path) -> Result<(), RuntimeError> {
    let prefix = Path::new(guest_path.trim_matches('/')).to_path_buf();
    fs::create_dir_all(to)?;
    let as_root = rustix::process::geteuid().is_root();
    let mut image = ErofsReader::new(fs::File::open(rootfs)?.into_parts().0)?;
    let mut found = false;
    // Folder modes are set last: a folder without write permission must still be filled.
    let mut folders: Vec<(PathBuf, u32)> = Vec::new();
    let mut copy = |image: &mut ErofsReader, entry: ErofsTreeEntry| -> Result<(), RuntimeError> {
        let path = entry.path.strip_prefix("/").unwrap_or(&entry.path);
        let Ok(inside) = path.strip_prefix(&prefix) else { return Ok(()) };
        found = true;
        if inside.components().any(|part| !matches!(part, Component::Normal(_))) {
            return Err(RuntimeError::BadArchive(format!("`{}` leaves its folder", entry.path.display())));
        }
        let target = to.join(inside);
        let mode = u32::from(entry.metadata.mode) & 0o7777;
        match entry.kind {
            ErofsEntryKind::Directory => {
                fs::create_dir_all(&target)?;
                folders.push((target.clone(), mode));
            }
            ErofsEntryKind::RegularFile => {
                let mut file = fs::OpenOptions::new().write(true).create_new(true).open(&target)?;
                std::io::copy(&mut image.file_data_reader(entry.nid)?, &mut file)?;
                file.set_permissions(std::fs::Permissions::from_mode(mode & 0o1777))?;
                let modified =
                    SystemTime::UNIX_EPOCH + Duration::new(entry.metadata.mtime, entry.metadata.mtime_nsec);
                file.file().set_modified(modified)?;
            }
            ErofsEntryKind::Symlink => {
                symlink(OsStr::from_bytes(&image.read_link_by_nid(entry.nid)?), &target)?;
            }
            _ => return Ok(()),
        }
        if as_root {
            lchown(&target, Some(entry.metadata.uid), Some(entry.metadata.gid))?;
        }
        Ok(())
    };
    image.walk_entries::<RuntimeError, _>(&mut copy)?;
    if !found {
        return Err(RuntimeError::BadArchive(format!("the image has no folder {guest_path}")));
    }
    for (folder, mode) in folders.into_iter().rev() {
        fs::set_permissions(&folder, std::fs::Permissions::from_mode(mode & 0o1777))?;
    }
    Ok(())
}

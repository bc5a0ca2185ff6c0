//! The writable disk of a guest that another init has booted. That one makes the root an overlay of the disk as well,
//! and leaves no path to it either; but the disk can be mounted once more.

use std::fs::DirBuilder;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use nix::mount::{MntFlags, MsFlags, mount, umount2};

use super::engines;
use crate::machine::Steps;

const BLOCK_DEVICES: &str = "/sys/class/block";
const MOUNTS: &str = "/proc/self/mountinfo";
/// What an overlay is made of, on the disk that it is written to.
const OF_AN_OVERLAY: [&str; 2] = ["upper", "work"];
/// Where ext4 has its magic number, and the number.
const MAGIC: (u64, [u8; 2]) = (1080, [0x53, 0xef]);

/// Gives each engine that the image has a place on the writable disk, as in a guest of our own. `aside` is a folder that
/// is made for it, and that nobody but root sees into.
pub fn bind_engines(aside: &Path) -> io::Result<()> {
    let mounts = fs_err::read_to_string(MOUNTS)?;
    if !engines::lack_a_place() || !is_overlay_root(&mounts) {
        return Ok(());
    }
    for entry in fs_err::read_dir(BLOCK_DEVICES)? {
        let entry = entry?;
        let number = fs_err::read_to_string(entry.path().join("dev"))?;
        let device = Path::new("/dev").join(entry.file_name());
        let is_candidate = !is_mounted(&mounts, number.trim()) && is_ext4(&device).unwrap_or(false);
        if is_candidate && bind_on(&device, aside)? {
            return Ok(());
        }
    }
    Ok(())
}

/// Whether it was the disk.
fn bind_on(device: &Path, aside: &Path) -> io::Result<bool> {
    DirBuilder::new().recursive(true).mode(0o700).create(aside)?;
    mount(Some(device), aside, Some("ext4"), MsFlags::MS_NOATIME, None::<&str>)?;
    let is_disk = OF_AN_OVERLAY.iter().all(|folder| aside.join(folder).is_dir());
    let bound = if is_disk { engines::bind(&aside.display().to_string(), &Steps::default()) } else { Ok(()) };
    // What was bound stays.
    umount2(aside, MntFlags::MNT_DETACH)?;
    bound.map_err(io::Error::other)?;
    Ok(is_disk)
}

/// The last mount at a place is the one that is seen.
fn is_overlay_root(mounts: &str) -> bool {
    let root = mounts.lines().rfind(|line| line.split(' ').nth(4) == Some("/"));
    root.and_then(|line| line.split_once(" - ")).is_some_and(|(_, rest)| rest.starts_with("overlay "))
}

fn is_mounted(mounts: &str, number: &str) -> bool {
    mounts.lines().any(|line| line.split(' ').nth(2) == Some(number))
}

fn is_ext4(device: &Path) -> io::Result<bool> {
    let (place, magic) = MAGIC;
    let mut file = fs_err::File::open(device)?;
    file.seek(SeekFrom::Start(place))?;
    let mut found = Vec::new();
    file.take(magic.len() as u64).read_to_end(&mut found)?;
    Ok(found == magic)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUEST: &str = "\
25 1 0:24 / / rw,relatime - overlay overlay rw,lowerdir=/.msb/rootfs/lower,upperdir=/.msb/rootfs/upperfs/upper
26 25 0:6 / /dev rw,relatime - devtmpfs devtmpfs rw
31 25 254:32 / /home/dev rw,relatime - ext4 /dev/vdc rw
";

    #[test]
    fn a_root_that_is_a_disk_needs_nothing() {
        assert!(is_overlay_root(GUEST));
        assert!(!is_overlay_root("1 0 254:0 / / rw - ext4 /dev/vda rw\n"));
        let over = format!("{GUEST}40 25 254:0 / / rw - ext4 /dev/vda rw\n");
        assert!(!is_overlay_root(&over), "an overlay below the root is not the root");
        assert!(!is_overlay_root("40 25 0:9 / /data rw - overlay overlay rw\n"));
    }

    #[test]
    fn the_home_is_not_the_disk() {
        assert!(is_mounted(GUEST, "254:32"));
        assert!(!is_mounted(GUEST, "254:16") && !is_mounted(GUEST, "254:3"));
    }

    #[test]
    fn only_ext4_is_mounted() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(!is_ext4(file.path()).unwrap(), "one with nothing in it");
        file.as_file().set_len(4096).unwrap();
        assert!(!is_ext4(file.path()).unwrap());
        std::os::unix::fs::FileExt::write_all_at(file.as_file(), &[0x53, 0xef], 1080).unwrap();
        assert!(is_ext4(file.path()).unwrap());
    }
}

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::fcntl::{OFlag, open};
use nix::mount::{MsFlags, mount};
use nix::sys::stat::Mode;
use nix::unistd::{chdir, chroot};
use sandbox_wire::BootConfig;

use super::step;
use crate::machine::{BootError, Steps};

const BASE: &str = "/base";
const DISK: &str = "/disk";
const NEW_ROOT: &str = "/new";
/// Moved rather than mounted again: process 1 stands in /proc.
const MOVED: [&str; 3] = ["/dev", "/proc", "/sys"];

/// Puts the overlay of base and disk together and makes it the root of this process. Gives a descriptor of
/// the disk's own mount.
pub fn switch(config: &BootConfig, steps: &Steps) -> Result<OwnedFd, BootError> {
    let BootConfig { base_device, base_fstype, root_device, .. } = config;
    step(steps, format!("mounting the base {base_device} ({base_fstype})"), || {
        fs_err::create_dir_all(BASE)?;
        Ok(mount(
            Some(base_device.as_str()),
            BASE,
            Some(base_fstype.as_str()),
            MsFlags::MS_RDONLY | MsFlags::MS_NOATIME,
            None::<&str>,
        )?)
    })?;
    let disk = step(steps, format!("mounting the writable disk {root_device} (ext4)"), || {
        fs_err::create_dir_all(DISK)?;
        // Discarded blocks become holes in the host's file.
        let options = Some("discard");
        mount(Some(root_device.as_str()), DISK, Some("ext4"), MsFlags::MS_NOATIME, options)?;
        fs_err::create_dir_all(format!("{DISK}/upper"))?;
        fs_err::create_dir_all(format!("{DISK}/work"))?;
        Ok(open(DISK, OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?)
    })?;
    step(steps, "mounting the overlay of base and writable disk", || {
        fs_err::create_dir_all(NEW_ROOT)?;
        // Without redirected folders, renaming a folder of the image fails: npm and mv do that.
        let options = format!("lowerdir={BASE},upperdir={DISK}/upper,workdir={DISK}/work,redirect_dir=on");
        let flags = MsFlags::MS_NOATIME;
        Ok(mount(Some("overlay"), NEW_ROOT, Some("overlay"), flags, Some(options.as_str()))?)
    })?;
    step(steps, "switching to the new root", enter)?;
    Ok(disk)
}

fn enter() -> io::Result<()> {
    for moved in MOVED {
        let target = format!("{NEW_ROOT}{moved}");
        fs_err::create_dir_all(&target)?;
        mount(Some(moved), target.as_str(), None::<&str>, MsFlags::MS_MOVE, None::<&str>)?;
    }
    chdir(NEW_ROOT)?;
    mount(Some("."), "/", None::<&str>, MsFlags::MS_MOVE, None::<&str>)?;
    chroot(".")?;
    chdir("/")?;
    // Programs that make mounts of their own for containers expect the root to be shared.
    let flags = MsFlags::MS_SHARED | MsFlags::MS_REC;
    Ok(mount(None::<&str>, "/", None::<&str>, flags, None::<&str>)?)
}

/// A path to what a descriptor stands for, wherever it is mounted.
pub fn path_of(descriptor: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", descriptor.as_raw_fd())
}

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use sandbox_wire::{GuestMount, STAGED_MOUNTS};

use super::step;
use crate::machine::{BootError, Steps};

/// What every Linux program expects: source, target, options, flags. /dev, /proc and /sys are there.
const STANDARD: [(&str, &str, &str, MsFlags); 5] = [
    ("devpts", "/dev/pts", "mode=0620,gid=5,ptmxmode=0666", NOSUID_NOEXEC),
    ("tmpfs", "/dev/shm", "mode=1777", NOSUID_NODEV),
    ("mqueue", "/dev/mqueue", "", NOSUID_NODEV),
    ("tmpfs", "/run", "mode=0755", NOSUID_NODEV),
    ("cgroup2", "/sys/fs/cgroup", "nsdelegate", NOSUID_NODEV),
];
const NOSUID_NODEV: MsFlags = MsFlags::MS_NOSUID.union(MsFlags::MS_NODEV);
const NOSUID_NOEXEC: MsFlags = MsFlags::MS_NOSUID.union(MsFlags::MS_NOEXEC);

const LINKS: [(&str, &str); 5] = [
    ("/proc/self/fd", "/dev/fd"),
    ("/proc/self/fd/0", "/dev/stdin"),
    ("/proc/self/fd/1", "/dev/stdout"),
    ("/proc/self/fd/2", "/dev/stderr"),
    ("pts/ptmx", "/dev/ptmx"),
];

/// Devices that are harmless to everybody, and that a machine without udev leaves to root.
const OPEN_DEVICES: [&str; 2] = ["/dev/fuse", "/dev/net/tun"];

/// Makes the mounts and devices of every Linux, whatever the boot configuration says. What this kernel lacks
/// is left out.
pub fn standard(steps: &Steps) -> Result<(), BootError> {
    for (fstype, target, options, flags) in STANDARD {
        step(steps, format!("mounting {fstype} at {target}"), || {
            // A file system that this kernel lacks is missed only by who uses it.
            if let Err(error) = fs_err::create_dir_all(target) {
                return if target.starts_with("/sys") || target.starts_with("/dev") {
                    Ok(())
                } else {
                    Err(error)
                };
            }
            match mount(Some(fstype), target, Some(fstype), flags, Some(options)) {
                Err(Errno::ENODEV) | Ok(()) => Ok(()),
                Err(error) => Err(error.into()),
            }
        })?;
    }
    step(steps, "filling /dev", || {
        for (points_to, link) in LINKS {
            let _ = fs_err::remove_file(link);
            symlink(points_to, link)?;
        }
        for device in OPEN_DEVICES.iter().filter(|device| Path::new(device).exists()) {
            fs_err::set_permissions(device, PermissionsExt::from_mode(0o666))?;
        }
        Ok(())
    })
}

/// Makes one mount of the boot configuration, and its target where it is missing.
pub fn requested(wanted: &GuestMount, steps: &Steps) -> Result<(), BootError> {
    let GuestMount { source, target, fstype, .. } = wanted;
    step(steps, format!("mounting {source} ({fstype}) at {target}"), || {
        make_target(Path::new(source), Path::new(target))?;
        let Options { mut flags, data } = Options::parse(&wanted.options);
        flags.set(MsFlags::MS_RDONLY, wanted.readonly || flags.contains(MsFlags::MS_RDONLY));
        let mount = |flags| {
            mount(Some(source.as_str()), target.as_str(), Some(fstype.as_str()), flags, Some(data.as_str()))
        };
        mount(flags)?;
        if flags.contains(MsFlags::MS_BIND) && flags.contains(MsFlags::MS_RDONLY) {
            // The kernel takes a bind mount's other flags only from a second call.
            mount(flags | MsFlags::MS_REMOUNT)?;
        }
        Ok(())
    })
}

/// A file is mounted on a file.
fn make_target(source: &Path, target: &Path) -> std::io::Result<()> {
    if !source.is_file() {
        return fs_err::create_dir_all(target);
    }
    if let Some(folder) = target.parent() {
        fs_err::create_dir_all(folder)?;
    }
    match fs_err::OpenOptions::new().write(true).create_new(true).open(target) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Takes away where the mounts came from; those that were made from it stay.
pub fn clear_stage(mounts: &[GuestMount], steps: &Steps) -> Result<(), BootError> {
    if !mounts.iter().any(|mount| mount.target == STAGED_MOUNTS) {
        return Ok(());
    }
    step(steps, format!("unmounting {STAGED_MOUNTS}"), || {
        umount2(STAGED_MOUNTS, MntFlags::MNT_DETACH)?;
        fs_err::remove_dir(STAGED_MOUNTS)
    })
}

/// The options of a mount as `mount(2)` wants them: what the kernel knows as flags apart from the rest.
#[derive(Debug, PartialEq, Eq)]
struct Options {
    flags: MsFlags,
    data: String,
}

impl Options {
    fn parse(options: &str) -> Self {
        let mut flags = MsFlags::empty();
        let mut data = Vec::new();
        for option in options.split(',').filter(|option| !option.is_empty()) {
            match option {
                "rw" | "defaults" => {}
                "ro" => flags |= MsFlags::MS_RDONLY,
                "nosuid" => flags |= MsFlags::MS_NOSUID,
                "nodev" => flags |= MsFlags::MS_NODEV,
                "noexec" => flags |= MsFlags::MS_NOEXEC,
                "noatime" => flags |= MsFlags::MS_NOATIME,
                "nodiratime" => flags |= MsFlags::MS_NODIRATIME,
                "relatime" => flags |= MsFlags::MS_RELATIME,
                "lazytime" => flags |= MsFlags::MS_LAZYTIME,
                "sync" => flags |= MsFlags::MS_SYNCHRONOUS,
                "dirsync" => flags |= MsFlags::MS_DIRSYNC,
                "bind" => flags |= MsFlags::MS_BIND,
                "rbind" => flags |= MsFlags::MS_BIND | MsFlags::MS_REC,
                other => data.push(other),
            }
        }
        Self { flags, data: data.join(",") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_told_from_data() {
        assert_eq!(
            Options::parse("nosuid,size=512m,nodev,mode=1777,rw"),
            Options { flags: NOSUID_NODEV, data: "size=512m,mode=1777".into() }
        );
        assert_eq!(Options::parse(""), Options { flags: MsFlags::empty(), data: String::new() });
        assert_eq!(Options::parse("rbind").flags, MsFlags::MS_BIND | MsFlags::MS_REC);
    }
}

//! The lab's own system: Debian with a kernel that has KVM, as a disk.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::steps::{Outcome, as_root, cached, run, text};

const SUITE: &str = "trixie";
/// `msb` refuses to load an image on a machine without certificates, though it fetches nothing.
const PACKAGES: &str = "linux-image-cloud-amd64,kmod,e2fsprogs,ca-certificates,procps,iproute2,\
    libseccomp2,libcap-ng0,qemu-system-x86,python3,git,openssh-client";

/// Everything but the mounts is on the second disk, so that this one changes rarely.
const INIT: &str = "\
#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev 2>/dev/null
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /tmp
mount -t ext4 /dev/vdb /in
exec /in/init
";

/// Unpacks as root would, so that owners are right, and makes the disk.
const MAKE_DISK: &str = "\
cd \"$1\"
mkdir root
tar --extract --numeric-owner --file root.tar --directory root --exclude './dev/*'
cp root/boot/vmlinuz-* kernel
cp root/boot/initrd.img-* initrd
rm -rf root/usr/share/doc root/usr/share/man root/var/cache/apt root/boot
mkdir root/in
cp init root/lab-init
chmod 755 root/lab-init
truncate -s 3G disk.img
mke2fs -q -F -t ext4 -E lazy_itable_init=1,lazy_journal_init=1 -d root disk.img
rm -rf root root.tar
chmod 644 kernel initrd disk.img
";

/// The files of a base.
pub struct Base {
    pub disk: PathBuf,
    pub kernel: PathBuf,
    pub initrd: PathBuf,
}

pub fn ensure(lab: &Path) -> Outcome<Base> {
    let dir = cached(lab, "base", &[SUITE, PACKAGES, INIT, MAKE_DISK], |dir| {
        std::fs::write(dir.join("init"), INIT).map_err(|error| text(&error))?;
        let mut bootstrap = Command::new("mmdebstrap");
        bootstrap
            .args(["--quiet", "--variant=minbase", "--aptopt=Acquire::Check-Valid-Until \"false\""])
            .arg(format!("--include={PACKAGES}"))
            .arg(SUITE)
            .arg(dir.join("root.tar"));
        run("bootstrapping the lab's Debian", &mut bootstrap)?;
        run("making its disk", &mut as_root(MAKE_DISK, dir)).map(drop)
    })?;
    Ok(Base { disk: dir.join("disk.img"), kernel: dir.join("kernel"), initrd: dir.join("initrd") })
}

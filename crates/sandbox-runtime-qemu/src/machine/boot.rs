//! What the guest program is told to become.

use std::time::{SystemTime, UNIX_EPOCH};

use sandbox_model::{
    GUEST_HOME, GUEST_SSH_AGENT, GUEST_USER, GUEST_WORKSPACE, secret_environment, ssh_agent_environment,
};
use sandbox_wire::{BootConfig, BootNetwork, GuestMount, STAGED_MOUNTS};

use super::config::MachineConfig;
use super::qemu_command::MOUNTS_TAG;

/// Disks in the order of [`super::qemu_command`]: the kernel names virtio-mmio disks as they come.
const BASE_DISK: &str = "/dev/vda";
const ROOT_DISK: &str = "/dev/vdb";
const HOME_DISK: &str = "/dev/vdc";

/// The host's time, in nanoseconds since 1970.
pub fn unix_nanos() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

/// `network` is what the bridge says; without one the guest has its loopback alone.
pub fn boot_config(config: &MachineConfig, network: Option<BootNetwork>) -> BootConfig {
    let spec = &config.spec;
    let mount = |source: &str, target: &str, fstype: &str, options: String| GuestMount {
        source: source.into(),
        target: target.into(),
        fstype: fstype.into(),
        options,
        readonly: false,
    };
    let mut mounts = vec![
        mount(HOME_DISK, GUEST_HOME, "ext4", String::new()),
        mount("workspace", GUEST_WORKSPACE, "virtiofs", String::new()),
        mount("tmpfs", "/tmp", "tmpfs", format!("size={},mode=1777", spec.tmp.bytes())),
    ];
    if !spec.mounts.is_empty() {
        mounts.push(mount(MOUNTS_TAG, STAGED_MOUNTS, "virtiofs", String::new()));
    }
    mounts.extend(spec.mounts.iter().enumerate().map(|(number, extra)| GuestMount {
        readonly: extra.readonly,
        ..mount(&format!("{STAGED_MOUNTS}/{number}"), &extra.target, "none", "bind".into())
    }));
    let mut env = config.image_env.clone();
    // The certificate of whoever puts in secrets counts, whatever the image says about certificates.
    env.extend(secret_environment(&spec.secrets));
    env.extend(ssh_agent_environment(spec.ssh_agent, GUEST_SSH_AGENT));
    env.extend(spec.env.iter().map(|(key, value)| (key.clone(), value.clone())));
    BootConfig {
        hostname: hostname(spec.name.as_str()),
        unix_nanos: unix_nanos(),
        base_device: BASE_DISK.into(),
        base_fstype: "erofs".into(),
        root_device: ROOT_DISK.into(),
        mounts,
        network,
        env,
        user: GUEST_USER.into(),
        ssh_agent: spec.ssh_agent,
    }
}

/// At most the 63 characters of a DNS label.
fn hostname(name: &str) -> String {
    name.chars().take(63).collect::<String>().trim_matches(['-', '.', '_']).into()
}

use std::fmt::Write;
use std::io;
use std::path::Path;

use sandbox_wire::{BootConfig, BootNetwork};

use super::step;
use crate::machine::{BootError, Steps};
use crate::{sysctls, trust};

/// Writes what belongs to this boot into the new root's /etc.
pub fn write(config: &BootConfig, steps: &Steps) -> Result<(), BootError> {
    let network = config.network.as_ref();
    step(steps, "writing /etc/hostname", || {
        replace(Path::new("/etc/hostname"), &format!("{}\n", config.hostname))
    })?;
    step(steps, "writing /etc/hosts", || {
        replace(Path::new("/etc/hosts"), &hosts(&config.hostname, network))
    })?;
    step(steps, "writing /etc/resolv.conf", || {
        replace(Path::new("/etc/resolv.conf"), &resolv_conf(network))
    })?;
    step(steps, "adding to the trusted certificates", || {
        trust::install(Path::new("/"), network.and_then(|network| network.extra_ca_pem.as_deref()))
    })?;
    sysctls::apply();
    Ok(())
}

/// Writes a file where the image may have a link to somewhere else (resolv.conf often is one).
fn replace(path: &Path, text: &str) -> io::Result<()> {
    if fs_err::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        fs_err::create_dir_all(parent)?;
    }
    if path.is_symlink() {
        fs_err::remove_file(path)?;
    }
    fs_err::write(path, text)
}

fn hosts(hostname: &str, network: Option<&BootNetwork>) -> String {
    let mut text =
        format!("127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n127.0.1.1 {hostname}\n");
    for (address, name) in network.into_iter().flat_map(|network| &network.hosts) {
        let _ = writeln!(text, "{address} {name}");
    }
    text
}

fn resolv_conf(network: Option<&BootNetwork>) -> String {
    let mut text = String::new();
    for server in network.into_iter().flat_map(|network| &network.nameservers) {
        let _ = writeln!(text, "nameserver {server}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_replaced_and_its_target_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let (link, target) = (dir.path().join("etc/resolv.conf"), dir.path().join("stub"));
        fs_err::create_dir(dir.path().join("etc")).unwrap();
        fs_err::write(&target, "old").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        replace(&link, "nameserver 192.0.2.1\n").unwrap();
        assert_eq!(fs_err::read_to_string(&link).unwrap(), "nameserver 192.0.2.1\n");
        assert!(!link.is_symlink());
        assert_eq!(fs_err::read_to_string(&target).unwrap(), "old");
    }

    #[test]
    fn hosts_name_the_sandbox_and_what_the_network_adds() {
        let network = BootNetwork {
            ipv4: None,
            ipv4_gateway: None,
            ipv6: None,
            ipv6_gateway: None,
            mtu: 1500,
            nameservers: vec!["192.0.2.53".into(), "2001:db8::53".into()],
            hosts: vec![("192.0.2.1".into(), "host.internal".into())],
            extra_ca_pem: None,
        };
        let text = hosts("box", Some(&network));
        assert!(text.contains("127.0.1.1 box\n"), "{text}");
        assert!(text.ends_with("192.0.2.1 host.internal\n"), "{text}");
        assert_eq!(resolv_conf(Some(&network)), "nameserver 192.0.2.53\nnameserver 2001:db8::53\n");
        assert_eq!(resolv_conf(None), "");
    }
}

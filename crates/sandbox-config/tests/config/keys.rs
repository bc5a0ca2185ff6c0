use std::path::Path;
use std::time::Duration;

use sandbox_config::{ConfigError, ImageBase, KEYS, Origin, entries};

use crate::lab::{Lab, yaml};

/// For each key, a value that is none of its default and one that is refused.
const VALUES: &[(&str, &str, &str)] = &[
    ("agent", "claude-code", "claude"),
    ("yes", "true", "maybe"),
    ("quiet", "true", "2"),
    ("log-level", "Verbose", "debug"),
    ("cpus", "255", "256"),
    ("memory", "512M", "lots"),
    ("disk-size", "8G", "8K"),
    ("tmp-size", "1G", "1.5G"),
    ("workspace-quota", "1G", "-1"),
    ("runtime", "qemu", "docker"),
    ("qemu.accel", "tcg", "hvf"),
    ("qemu.kernel", "/boot/vmlinux", "~other/vmlinux"),
    ("msb.archive", "/srv/msb.tar.gz", "~other/msb"),
    ("image.engine", "podman", "img"),
    ("image.base", "bootstrap:trixie", "bootstrap:--x"),
    ("image.host-ca", "on", "never"),
    ("docker", "true", "maybe"),
    ("provision-host-config", "true", "maybe"),
    ("provision-habits", "false", "maybe"),
    ("network.profile", "public", "internet"),
    ("network.provider", "'api.example.com:443'", "127.0.0.1"),
    ("network.egress-allow", "'host, 10.0.0.0/8, .example.com, api.example.com:443, *'", "'host:99999'"),
    ("network.egress-deny", "['10.0.0.1', '[::1]:80']", "10.0.0.0/99"),
    ("network.dns-servers", "'1.1.1.1, ::1'", "dns.example.com"),
    ("network.proxy", "socks5h://me:pw@proxy.corp:1080", "ftp://proxy.corp"),
    ("network.no-proxy", "'.corp, 10.0.0.0/8, x:8443, *'", "<local>"),
    ("ports", "['8080:80', '127.0.0.1:5432:5432']", "8080:http"),
    ("ssh.agent", "true", "maybe"),
    ("ssh.keys", "['SHA256:abc', me@home]", "{a: b}"),
    ("git.signing", "true", "maybe"),
    ("auto-stop", "stop", "pause"),
    ("auto-stop-timeout", "1m", "0s"),
    ("auto-stop-on-active-sessions", "true", "maybe"),
    ("auto-stop-max-session-retries", "3", "-1"),
    ("memory-keep", "1d", "forever"),
    ("auto-prune-age", "2w", "0"),
    ("manual-prune-age", "36h", "10"),
    ("upgrade.mode", "' Auto-Exit '", "always"),
    ("upgrade.source", "https://example.org/releases", "http://example.org/releases"),
    ("upgrade.agents", "off", "auto"),
    ("upgrade.interval", "1h", "59m"),
    ("notify.desktop", "true", "maybe"),
    ("notify.audio", "bell", "loud"),
    ("notify.on-input", "false", "maybe"),
    ("notify.on-done", "false", "maybe"),
    ("notify.on-error", "false", "maybe"),
    ("mounts", "{/data: /srv}", "{/tmp/x: /srv}"),
    ("home", "{.netrc: ~/.netrc}", "{../x: /srv}"),
    ("dind", "true", "maybe"),
];

fn document(key: &str, value: &str) -> String {
    match key.split_once('.') {
        Some((outer, inner)) => format!("{outer}:\n  {inner}: {value}\n"),
        None => format!("{key}: {value}\n"),
    }
}

#[test]
fn every_key_takes_its_values_and_no_others() {
    let listed: Vec<&str> = VALUES.iter().map(|(key, ..)| *key).collect();
    assert_eq!(listed, KEYS.iter().map(|key| key.name).collect::<Vec<_>>());
    for (key, good, bad) in VALUES {
        let settings = yaml(&document(key, good)).load().settings;
        let changed: Vec<String> = entries(&settings)
            .into_iter()
            .filter(|entry| entry.origin != Origin::Default)
            .map(|entry| entry.key)
            .collect();
        let name = if *key == "dind" { "docker" } else { key };
        assert!(changed.len() == 1 && changed[0].starts_with(name), "{key}: {changed:?}");
        let error = yaml(&document(key, bad)).error();
        assert!(matches!(&error, ConfigError::File(_)), "{key}: {error}");
    }
}

#[test]
fn every_variable_takes_what_its_key_takes() {
    for key in KEYS.iter().filter(|key| key.env) {
        let (_, good, bad) = VALUES.iter().find(|(name, ..)| *name == key.name).unwrap();
        let variable = format!("AGENTS_SANDBOX_{}", key.variable());
        let mut lab = Lab::new();
        lab.variable(&variable, good.trim_matches('\''));
        let origin = Origin::Env { variable: variable.clone() };
        assert!(entries(&lab.load().settings).iter().any(|entry| entry.origin == origin), "{variable}");
        lab.variable(&variable, bad);
        assert!(lab.error().to_string().starts_with(&format!("{variable}: ")), "{variable}");
    }
}

#[test]
fn scalars_are_lists_too() {
    let settings =
        yaml("network: {egress-allow: 'a.example, b.example,,a.example', egress-deny: ''}\n").load().settings;
    assert_eq!(settings.network_egress_allow.value, ["a.example", "b.example"]);
    assert!(settings.network_egress_deny.value.is_empty());
}

#[test]
fn an_empty_resolver_is_refused() {
    for list in ["[1.1.1.1, '']", "'1.1.1.1,'"] {
        let error = yaml(&format!("network: {{dns-servers: {list}}}\n")).error().to_string();
        assert!(error.ends_with("`` is not a resolver: it is empty"), "{error}");
    }
}

#[test]
fn no_retries_are_the_built_in_number() {
    assert_eq!(
        yaml("auto-stop-max-session-retries: 0").load().settings.auto_stop_max_session_retries.value,
        10
    );
}

#[test]
fn days_and_weeks_are_durations() {
    assert_eq!(
        yaml("auto-prune-age: 2w").load().settings.auto_prune_age.value,
        Duration::from_hours(14 * 24)
    );
}

#[test]
fn an_empty_disk_size_is_the_runtimes_own() {
    let mut lab = yaml("disk-size: 8G\n");
    lab.inputs.flags.disk_size = Some(String::new());
    assert_eq!(lab.load().settings.disk_size.value, None);
}

#[test]
fn paths_are_relative_to_their_file_and_absolute_elsewhere() {
    let mut lab = Lab::new();
    let file = lab.user("config.yaml", "qemu: {kernel: boot/vmlinux}\nmsb: {archive: ~/msb}\n");
    let settings = lab.load().settings;
    assert_eq!(settings.qemu_kernel.value, Some(file.parent().unwrap().join("boot/vmlinux")));
    assert_eq!(settings.msb_archive.value.as_deref(), Some(Path::new("/home/u/msb")));
    lab.variable("AGENTS_SANDBOX_QEMU_KERNEL", "vmlinux");
    let error = lab.error();
    assert_eq!(error.to_string(), "AGENTS_SANDBOX_QEMU_KERNEL: `vmlinux` is relative");
    assert_eq!(error.help(), Some("write an absolute path, or one that starts with ~/"));
}

#[test]
fn an_image_is_a_reference_or_a_release() {
    let base = |text: &str| yaml(&format!("image: {{base: '{text}'}}\n")).load().settings.image_base.value;
    assert_eq!(base("auto"), ImageBase::Auto);
    assert_eq!(base("bootstrap:trixie"), ImageBase::Bootstrap { suite: "trixie".into() });
    assert!(
        matches!(base("registry.example:5000/debian:13"), ImageBase::Reference(image) if image.as_str() == "registry.example:5000/debian:13")
    );
}

#[test]
fn a_mount_resolves_its_source_when_it_is_used() {
    let lab = Lab::new();
    let real = lab.root().join("real");
    std::fs::create_dir(&real).unwrap();
    std::os::unix::fs::symlink(&real, lab.root().join("link")).unwrap();
    std::fs::write(lab.root().join("file"), "").unwrap();
    let _pipe = std::os::unix::net::UnixListener::bind(lab.root().join("pipe")).unwrap();
    lab.user(
        "config.yaml",
        &["link", "file", "gone", "pipe"]
            .map(|name| format!("  /m/{name}: {}\n", lab.root().join(name).display()))
            .concat()
            .replacen("  ", "mounts:\n  ", 1),
    );
    let mounts = lab.load().settings.mounts;
    assert_eq!(mounts["/m/link"].value.resolve().unwrap().place, real.canonicalize().unwrap());
    assert_eq!(
        mounts["/m/file"].value.resolve().unwrap().place,
        lab.root().join("file").canonicalize().unwrap()
    );
    assert!(mounts["/m/gone"].value.resolve().unwrap().missing && mounts["/m/pipe"].value.resolve().is_err());
}

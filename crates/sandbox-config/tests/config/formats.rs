use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::{Duration, Instant};

use sandbox_config::{ConfigError, HostCa, NotifyAudio, Origin};
use sandbox_model::ByteSize;

use crate::lab::{Lab, in_file, yaml};

const YAML: &str = "# c\nmemory: 8G\nnetwork:\n  egress-allow:\n    - \".corp.example\"\nmounts:\n  /home/dev/.m2: {source: ~/.m2, readonly: yes}\n";
const JSON: &str = "{\n\"memory\": \"8G\",\n\"network\": {\n\"egress-allow\": [\".corp.example\"]},\n\n\"mounts\": {\n\"/home/dev/.m2\": {\"source\": \"~/.m2\", \"readonly\": true}}}";
const JSONC: &str = "{ // c\n\"memory\": \"8G\", /* d */\n\"network\": {\n\"egress-allow\": [\".corp.example\",]},\n\n\"mounts\": {\n\"/home/dev/.m2\": {\"source\": \"~/.m2\", \"readonly\": true}},}";
const JSON5: &str = "{\nmemory: '8G',\nnetwork: {\n'egress-allow': '.corp.example'},\n\nmounts: {\n\"/home/dev/.\\\n\\x6d2\": {source: '~/.m2', readonly: true}},}";

#[test]
fn four_formats_say_the_same() {
    for (name, text) in [
        ("config.yaml", YAML),
        ("config.yml", YAML),
        ("config.json", JSON),
        ("config.jsonc", JSONC),
        ("config.json5", JSON5),
    ] {
        let lab = Lab::new();
        let file = lab.user(name, text);
        let settings = lab.load().settings;
        assert_eq!(
            (settings.memory.value, &settings.memory.origin),
            (ByteSize::gib(8), &in_file(&file, 2)),
            "{name}"
        );
        assert_eq!(settings.network_egress_allow.value, [".corp.example"], "{name}");
        let mount = &settings.mounts["/home/dev/.m2"];
        assert!(mount.value.readonly, "{name}");
        assert_eq!(mount.origin, in_file(&file, 7), "{name}");
    }
}

#[test]
fn an_empty_file_and_a_key_without_a_value_set_nothing() {
    for (name, text) in [
        ("config.yaml", ""),
        ("config.yaml", "# nothing\n"),
        ("config.yaml", "memory:\nnetwork:\nhome:\n  # .gitconfig:\n"),
        ("config.json", " \n"),
        ("config.json5", "// nothing\n"),
        ("config.json", "{\"memory\": null, \"mounts\": null}"),
        ("config.yaml", "\u{feff}memory: 4G"),
    ] {
        let lab = Lab::new();
        lab.user(name, text);
        assert_eq!(lab.load().settings.memory.value, ByteSize::gib(4), "{text:?}");
    }
}

#[test]
fn on_and_off_are_words_where_words_are_meant() {
    let settings =
        yaml("notify: {audio: off, desktop: on}\nimage: {host-ca: on}\nquiet: yes\n").load().settings;
    assert_eq!((settings.notify_audio.value, settings.notify_desktop.value), (NotifyAudio::Off, true));
    assert_eq!((settings.image_host_ca.value, settings.quiet.value), (HostCa::On, true));
    let lab = Lab::new();
    lab.user("config.json", "{\"notify\": {\"audio\": false}, \"image\": {\"host-ca\": false}}");
    let settings = lab.load().settings;
    assert_eq!((settings.image_host_ca.value, settings.notify_audio.value), (HostCa::Off, NotifyAudio::Off));
}

#[test]
fn yaml_anchors_point_to_where_they_are_used() {
    let lab = Lab::new();
    let file = lab.user("config.yaml", "memory: &size 3G\ntmp-size: *size\n");
    let settings = lab.load().settings;
    assert_eq!((settings.tmp_size.value, settings.tmp_size.origin), (ByteSize::gib(3), in_file(&file, 2)));
}

#[test]
fn what_is_no_file_is_refused_and_nobody_waits_for_it() {
    let lab = Lab::new();
    let file = lab.project("config.yaml", "");
    fs::remove_file(&file).unwrap();
    let begun = Instant::now();
    assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
    assert!(matches!(lab.error(), ConfigError::Unreadable { path, .. } if path == file));
    fs::remove_file(&file).unwrap();
    symlink("/dev/zero", &file).unwrap();
    assert!(matches!(lab.error(), ConfigError::Escape { path, .. } if path == file));
    fs::remove_file(&file).unwrap();
    let own = lab.user("config.yaml", "");
    fs::remove_file(&own).unwrap();
    symlink("/dev/zero", &own).unwrap();
    assert!(matches!(lab.error(), ConfigError::Unreadable { path, .. } if path == own));
    fs::remove_file(&own).unwrap();
    fs::write(&file, "#".repeat((1 << 20) + 1)).unwrap();
    assert!(matches!(lab.error(), ConfigError::Unreadable { path, .. } if path == file));
    fs::write(&file, b"memory: \xff\n").unwrap();
    assert!(matches!(lab.error(), ConfigError::Unreadable { path, .. } if path == file));
    fs::write(&file, "#".repeat(1 << 20)).unwrap();
    assert_eq!(lab.load().settings.memory.origin, Origin::Default);
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[test]
fn hostile_documents_end_in_an_error() {
    let bomb = (0..40).fold("a0: &a0 [x, x]\n".to_owned(), |text, at| {
        format!("{text}a{}: &a{} [*a{at}, *a{at}]\n", at + 1, at + 1)
    });
    for (name, text) in [
        ("config.yaml", bomb.as_str()),
        ("config.yaml", &"[".repeat(100_000)),
        ("config.yaml", &"{a: ".repeat(100_000)),
        ("config.json", &"[".repeat(100_000)),
        ("config.json", &"{a:".repeat(100_000)),
    ] {
        let lab = Lab::new();
        lab.project(name, text);
        let begun = Instant::now();
        assert!(matches!(lab.error(), ConfigError::File(_)), "{name}");
        assert!(begun.elapsed() < Duration::from_secs(10), "{name}: {:?}", begun.elapsed());
    }
}

use std::path::Path;
use std::time::Duration;

use sandbox_config::{NotifyAudio, Origin, entries};
use sandbox_model::{AgentName, ByteSize, NetworkProfile};

use crate::lab::{Lab, env, in_file, yaml};

#[test]
fn without_any_layer_the_built_in_settings_hold() {
    let loaded = Lab::new().load();
    assert_eq!(loaded.settings, sandbox_config::Settings::default());
    assert!(loaded.warnings.is_empty() && loaded.project.is_none());
    let settings = loaded.settings;
    assert_eq!(settings.memory.value, ByteSize::gib(4));
    assert_eq!(settings.agent.value, AgentName::OPENCODE);
    assert_eq!(settings.network_policy().profile, NetworkProfile::None);
    assert_eq!((settings.resources(6).cpus, settings.resources(0).cpus), (6, 1));
    assert_eq!(settings.auto_stop_timeout.value, Duration::from_secs(10));
}

#[test]
fn each_layer_wins_over_the_ones_below() {
    let mut lab = Lab::new();
    let names = ["memory", "tmp-size", "workspace-quota", "disk-size", "cpus", "agent"];
    let text = |value: &str, count: usize| {
        let lines: Vec<String> = names[..count].iter().map(|name| format!("{name}: {value}")).collect();
        lines.join("\n").replace("agent: 5", "agent: pi")
    };
    let user = lab.user("config.yaml", &text("5", 6));
    let repo = lab.repo("config.yaml", &text("6", 5));
    let project = lab.project("config.yaml", &text("7", 4));
    lab.variable("AGENTS_SANDBOX_MEMORY", "8");
    lab.variable("AGENTS_SANDBOX_TMP_SIZE", "8");
    lab.inputs.flags.memory = Some("9".into());
    let settings = lab.load().settings;
    assert_eq!(
        (settings.memory.value, &settings.memory.origin),
        (ByteSize::mib(9), &Origin::Flag { name: "--memory" })
    );
    assert_eq!(
        (settings.tmp_size.value, &settings.tmp_size.origin),
        (ByteSize::mib(8), &env("AGENTS_SANDBOX_TMP_SIZE"))
    );
    assert_eq!(
        (settings.disk_size.value, &settings.disk_size.origin),
        (Some(ByteSize::mib(7)), &in_file(&project, 4))
    );
    assert_eq!((settings.cpus.value, &settings.cpus.origin), (6, &in_file(&repo, 5)));
    assert_eq!(
        (settings.agent.value, &settings.agent.origin),
        (AgentName::literal("pi"), &in_file(&user, 6))
    );
    assert_eq!(settings.yes.origin, Origin::Default);
}

#[test]
fn maps_merge_key_by_key_and_lists_replace() {
    let lab = Lab::new();
    let user = lab.user(
        "config.yaml",
        "mounts:\n  /data: /srv/data\n  /home/dev/.m2: ~/.m2\nnetwork:\n  profile: private\n  egress-allow: [a.example, b.example]\n",
    );
    let project = lab.project(
        "config.yaml",
        "mounts:\n  /data/: {source: /srv/other, readonly: true}\nnetwork:\n  egress-allow: [c.example]\n",
    );
    let settings = lab.load().settings;
    let mount = &settings.mounts["/data"];
    assert_eq!((mount.value.source.as_path(), mount.value.readonly), (Path::new("/srv/other"), true));
    assert_eq!(mount.origin, in_file(&project, 2));
    let mount = &settings.mounts["/home/dev/.m2"];
    assert_eq!((mount.value.source.as_path(), &mount.origin), (Path::new("/home/u/.m2"), &in_file(&user, 3)));
    assert_eq!(settings.network_egress_allow.value, ["c.example"]);
    assert_eq!(
        (settings.network_profile.value, &settings.network_profile.origin),
        (NetworkProfile::Private, &in_file(&user, 5))
    );
}

#[test]
fn the_first_file_of_a_folder_counts_and_the_others_are_not_read() {
    let lab = Lab::new();
    lab.user("config.json", "{ broken");
    lab.user("config.yml", "memory: 1G");
    assert_eq!(lab.load().settings.memory.value, ByteSize::gib(1));
    lab.user("config.yaml", "memory: 2G");
    assert_eq!(lab.load().settings.memory.value, ByteSize::gib(2));
}

#[test]
fn the_network_flag_replaces_the_whole_policy() {
    let mut lab = yaml(
        "network: {profile: none, egress-allow: [a.example], egress-deny: [b.example], dns-servers: 1.1.1.1}\n",
    );
    assert_eq!(lab.load().settings.network_policy().dns_servers, ["1.1.1.1:53"]);
    lab.inputs.flags.network = Some("public".into());
    let policy = lab.load().settings.network_policy();
    assert_eq!(policy.profile, NetworkProfile::Public);
    assert!(policy.egress_allow.is_empty() && policy.egress_deny.is_empty() && policy.dns_servers.is_empty());
    lab.inputs.flags.dns = vec!["9.9.9.9".into(), "::1,8.8.8.8:5353".into()];
    assert_eq!(lab.load().settings.network_policy().dns_servers, ["9.9.9.9:53", "[::1]:53", "8.8.8.8:5353"]);
    lab.inputs.flags.network = None;
    assert_eq!(lab.load().settings.network_policy().egress_allow, ["a.example"]);
}

#[test]
fn the_profile_variable_replaces_the_profile_alone() {
    let mut lab = yaml("network: {egress-allow: a.example}\n");
    lab.variable("AGENTS_SANDBOX_NETWORK_PROFILE", "public");
    let policy = lab.load().settings.network_policy();
    assert_eq!((policy.profile, policy.egress_allow), (NetworkProfile::Public, vec!["a.example".into()]));
}

#[test]
fn the_old_prefix_loses_to_the_new_one_and_is_warned_of_once() {
    let mut lab = yaml("memory: 1G\n");
    lab.variable("OPENCODE_SANDBOX_MEMORY", "2G");
    lab.variable("OPENCODE_SANDBOX_CPUS", "2");
    let loaded = lab.load();
    assert_eq!((loaded.settings.memory.value, loaded.settings.cpus.value), (ByteSize::gib(2), 2));
    assert_eq!(loaded.warnings.len(), 1);
    assert!(loaded.warnings[0].contains("OPENCODE_SANDBOX_MEMORY"), "{}", loaded.warnings[0]);
    lab.variable("AGENTS_SANDBOX_MEMORY", "3G");
    let loaded = lab.load();
    assert_eq!(
        (loaded.settings.memory.value, loaded.settings.memory.origin),
        (ByteSize::gib(3), env("AGENTS_SANDBOX_MEMORY"))
    );
}

#[test]
fn an_empty_variable_is_not_set() {
    let mut lab = yaml("memory: 1G\n");
    lab.variable("AGENTS_SANDBOX_MEMORY", "");
    assert_eq!(lab.load().settings.memory.value, ByteSize::gib(1));
}

#[test]
fn a_variable_that_nearly_is_one_is_pointed_out() {
    let mut lab = Lab::new();
    for name in ["MEMROY", "MOUNTS", "IMAGE_PATH", "NOTIFY_DESKTOP"] {
        lab.variable(&format!("AGENTS_SANDBOX_{name}"), "x");
    }
    assert_eq!(
        lab.load().warnings,
        [
            "AGENTS_SANDBOX_MEMROY sets nothing; did you mean AGENTS_SANDBOX_MEMORY?",
            "AGENTS_SANDBOX_MOUNTS sets nothing: `mounts` can be set in a file only",
            "AGENTS_SANDBOX_NOTIFY_DESKTOP sets nothing: `notify.desktop` can be set in a file only",
        ]
    );
}

#[test]
fn the_old_name_of_docker_loses_to_the_new_one_and_is_warned_of_once() {
    for (text, docker) in
        [("dind: true", true), ("dind: true\ndocker: false", false), ("docker: true\ndind: false", true)]
    {
        let loaded = yaml(text).load();
        assert_eq!(loaded.settings.docker.value, docker, "{text}");
        assert_eq!(loaded.warnings, ["`dind` is the old name of `docker`; write `docker` instead"], "{text}");
    }
    let mut lab = yaml("dind: true\n");
    lab.variable("AGENTS_SANDBOX_DIND", "true");
    lab.inputs.flags.dind = Some(true);
    assert_eq!(lab.load().warnings.len(), 1);
    lab.inputs.flags.docker = Some(false);
    assert!(!lab.load().settings.docker.value);
    assert!(yaml("docker: true").load().warnings.is_empty());
}

#[test]
fn the_notify_flag_overrides_the_channels_and_keeps_the_occasions() {
    let mut lab = yaml("notify: {audio: bell, on-done: false}\n");
    for (mode, desktop, audio) in [
        ("on", true, NotifyAudio::Bell),
        ("", true, NotifyAudio::Bell),
        ("off", false, NotifyAudio::Off),
        ("desktop", true, NotifyAudio::Off),
        ("audio", false, NotifyAudio::Bell),
        ("bell", false, NotifyAudio::Bell),
        ("sound", false, NotifyAudio::System),
    ] {
        lab.inputs.flags.notify = Some(mode.into());
        let settings = lab.load().settings;
        assert_eq!((settings.notify_desktop.value, settings.notify_audio.value), (desktop, audio), "{mode}");
        assert!(!settings.notify_on_done.value && settings.notify_on_input.value);
    }
    let mut lab = Lab::new();
    lab.variable("AGENTS_SANDBOX_NOTIFY", "audio");
    assert_eq!(lab.load().settings.notify_audio.value, NotifyAudio::System);
    lab.variable("AGENTS_SANDBOX_NOTIFY", "loud");
    assert_eq!(
        lab.error().to_string(),
        "AGENTS_SANDBOX_NOTIFY: `loud` is not one of on, off, desktop, audio, bell, sound"
    );
}

#[test]
fn every_setting_is_listed_with_its_origin() {
    let lab = Lab::new();
    let file = lab.user(
        "config.yaml",
        "home:\n  .gitconfig:\n  bin/up: {source: up.sh, hook: startup, root: true}\ndisk-size: 8G\n",
    );
    let shown: Vec<String> = entries(&lab.load().settings)
        .into_iter()
        .filter(|entry| entry.origin != Origin::Default || entry.key == "memory" || entry.key == "mounts")
        .map(|entry| format!("{} = {} ({}) {}", entry.key, entry.value, entry.json, entry.origin))
        .map(|line| line.replace(file.parent().unwrap().to_str().unwrap(), "CONFIG"))
        .collect();
    assert_eq!(
        shown,
        [
            "memory = 4G (\"4G\") default",
            "disk-size = 8G (\"8G\") CONFIG/config.yaml:4",
            "mounts =  ({}) default",
            "home..gitconfig = /home/u/.gitconfig ({\"source\":\"/home/u/.gitconfig\"}) CONFIG/config.yaml:2",
            "home.bin/up = CONFIG/up.sh (run at startup as root) ({\"source\":\"CONFIG/up.sh\",\"hook\":\"startup\",\"root\":true}) CONFIG/config.yaml:3",
        ]
    );
}

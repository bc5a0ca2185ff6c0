//! How a sandbox differs from the one that is wanted, and what each difference takes. Pure.

use std::collections::BTreeMap;

use sandbox_model::{Digest, SandboxSpec, SecretSpec};

use crate::difference::{few, members, value};

/// What it takes until a change counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Nothing, where the runtime can do it; otherwise the next start. Nobody is disturbed for it.
    Live,
    /// The agent's server starts again.
    DaemonRestart,
    /// The sandbox starts again, made anew where that must be.
    Recreate,
}

/// One setting that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// As the configuration calls it.
    pub setting: &'static str,
    /// What it takes until it counts.
    pub class: Class,
    /// What it was and will be, or what a list gains and loses, for people. Holds no value of a variable, for that may
    /// be a secret.
    pub difference: String,
    /// Only a sandbox made anew can have it: its root disk depends on it.
    pub fixed: bool,
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.setting, self.difference)
    }
}

/// What is compared.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// What it is made with, or is to be made with.
    pub spec: &'a SandboxSpec,
    /// Fingerprint of the agent's merged configuration; `None` where there is nothing to compare.
    pub agent_config: Option<&'a str>,
}

impl<'a> From<&'a SandboxSpec> for Facts<'a> {
    fn from(spec: &'a SandboxSpec) -> Self {
        Self { spec, agent_config: None }
    }
}

/// Every difference, the hardest to apply first. A sandbox that starts again starts the agent's server with
/// it, so that is no change of its own then.
pub fn drift<'a>(have: impl Into<Facts<'a>>, want: impl Into<Facts<'a>>) -> Vec<Change> {
    let (have, want) = (have.into(), want.into());
    let mut changes = specs(have.spec, want.spec);
    let anew = changes.iter().any(|change| change.class == Class::Recreate);
    if let (Some(from), Some(to), false) = (have.agent_config, want.agent_config, anew)
        && from != to
    {
        changes.push(Change {
            setting: "agent configuration",
            class: Class::DaemonRestart,
            difference: "as it was → changed".into(),
            fixed: false,
        });
    }
    changes.sort_by_key(|change| (std::cmp::Reverse(change.class), !change.fixed));
    changes
}

fn specs(have: &SandboxSpec, want: &SandboxSpec) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut differs = |setting, class, fixed, difference: Option<String>| {
        changes.extend(difference.map(|difference| Change { setting, class, difference, fixed }));
    };
    let image = |spec: &SandboxSpec| spec.image_digest.short().to_string();
    let (from, to) = (image(have), image(want));
    // Two digests may begin alike.
    let differ = have.image_digest != want.image_digest && from == to;
    let to = if differ { want.image_digest.to_string() } else { to };
    differs("image", Class::Recreate, true, value(&from, &to));
    differs("disk-size", Class::Recreate, true, shown(&have.root_disk, &want.root_disk));
    differs("tmp-size", Class::Recreate, false, shown(&have.tmp, &want.tmp));
    let (before, after) = (&have.workspace, &want.workspace);
    differs("workspace-quota", Class::Recreate, false, shown(&before.quota, &after.quota));
    differs("workspace", Class::Recreate, false, shown(&before.source.display(), &after.source.display()));
    differs("home volume", Class::Recreate, false, value(&volume(have), &volume(want)));
    let (before, after) = (&have.network, &want.network);
    differs("network", Class::Recreate, false, shown(&before.profile, &after.profile));
    for (setting, from, to) in [
        ("egress-allow", &before.egress_allow, &after.egress_allow),
        ("egress-deny", &before.egress_deny, &after.egress_deny),
        ("dns-servers", &before.dns_servers, &after.dns_servers),
    ] {
        differs(setting, Class::Recreate, false, members(from, to));
    }
    differs("mounts", Class::Recreate, false, members(&mounts(have), &mounts(want)));
    let ports = |spec: &SandboxSpec| spec.ports.iter().map(ToString::to_string).collect::<Vec<_>>();
    // One port too many waits for the next start: others may use it.
    let there = want.ports.iter().all(|port| have.ports.contains(port));
    let class = if there { Class::Live } else { Class::Recreate };
    differs("ports", class, false, members(&ports(have), &ports(want)));
    let rest = |spec: &SandboxSpec| if spec.sleep { "sleep" } else { "stop" };
    differs("auto-stop", Class::Live, false, value(rest(have), rest(want)));
    let (from, to) = variables(&have.env, &want.env);
    differs("env", Class::Recreate, false, value(&from, &to));
    let (from, to) = secrets(&have.secrets, &want.secrets);
    differs("secrets", Class::Recreate, false, value(&from, &to));
    let agent = |spec: &SandboxSpec| if spec.ssh_agent { "the user's" } else { "none" };
    differs("ssh-agent", Class::Recreate, false, value(agent(have), agent(want)));
    let (before, after) = (have.resources, want.resources);
    differs("cpus", Class::Live, false, shown(&before.cpus, &after.cpus));
    differs("memory", Class::Live, false, shown(&before.memory, &after.memory));
    changes
}

fn shown(from: &impl ToString, to: &impl ToString) -> Option<String> {
    value(&from.to_string(), &to.to_string())
}

fn volume(spec: &SandboxSpec) -> String {
    spec.home.path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

fn mounts(spec: &SandboxSpec) -> Vec<String> {
    let mounts = spec.mounts.iter().map(|mount| {
        let readonly = if mount.readonly { " (readonly)" } else { "" };
        format!("{} from {}{readonly}", mount.target, mount.source.display())
    });
    mounts.collect()
}

/// The names of variables that differ, before and after.
fn variables(have: &BTreeMap<String, String>, want: &BTreeMap<String, String>) -> (String, String) {
    let names = |all: &BTreeMap<String, String>, other: &BTreeMap<String, String>, both: &str| {
        let differing = all.iter().filter(|(name, value)| other.get(*name) != Some(*value));
        let names: Vec<String> = differing
            .map(|(name, _)| if other.contains_key(name) { format!("{name}{both}") } else { name.clone() })
            .collect();
        few(&names)
    };
    (names(have, want, ""), names(want, have, " (another value)"))
}

/// The secrets that differ, before and after: whom they are for, and never what they are.
fn secrets(have: &[SecretSpec], want: &[SecretSpec]) -> (String, String) {
    let texts = |all: &[SecretSpec], other: &[SecretSpec], after: bool| {
        let differing = all.iter().filter(|secret| !other.contains(secret)).map(|secret| {
            let (name, reach) = (&secret.name, secret.reach());
            let known = other.iter().find(|other| other.name == *name);
            let what = match known {
                Some(known) if after && known.fingerprint != secret.fingerprint => " (another value)",
                Some(_) if after => " (changed)",
                _ => "",
            };
            format!("{name} for {reach}{what}")
        });
        few(&differing.collect::<Vec<_>>())
    };
    (texts(have, want, false), texts(want, have, true))
}

/// Whether the user is to say what becomes of the home: only when the image is another than the one that
/// the home was last settled with, and the sandbox is in fact about to be made anew (`recreates`; not one
/// that keeps running as it is).
pub fn home_choice_needed(settled: Option<&Digest>, wanted: &Digest, recreates: bool) -> bool {
    recreates && settled.is_some_and(|settled| settled != wanted)
}

#[cfg(test)]
mod tests {
    use sandbox_model::{ByteSize, ExtraMount, NetworkProfile};

    use super::*;
    use crate::up::spec::tests::example;

    fn changed(change: impl Fn(&mut SandboxSpec)) -> Vec<Change> {
        let (have, mut want) = (example(), example());
        change(&mut want);
        drift(&have, &want)
    }

    #[track_caller]
    fn one(change: impl Fn(&mut SandboxSpec), class: Class, fixed: bool, text: &str) {
        let changes = changed(change);
        assert_eq!(changes.iter().map(ToString::to_string).collect::<Vec<_>>(), [text]);
        assert_eq!((changes[0].class, changes[0].fixed), (class, fixed), "{text}");
    }

    #[test]
    fn every_setting_has_its_class() {
        use Class::{Live, Recreate};
        assert_eq!(changed(|_| {}), []);
        one(|s| s.root_disk = ByteSize::gib(9), Recreate, true, "disk-size: 4G → 9G");
        one(|s| s.tmp = ByteSize::gib(1), Recreate, false, "tmp-size: 2G → 1G");
        one(|s| s.workspace.quota = ByteSize::mib(1), Recreate, false, "workspace-quota: 16G → 1M");
        one(|s| s.workspace.source = "/x".into(), Recreate, false, "workspace: /home/u/myproject → /x");
        one(|s| s.ports = vec!["8080:80".parse().unwrap()], Recreate, false, "ports: added 8080:80");
        one(
            |s| s.mounts = vec![ExtraMount { target: "/d".into(), source: "/s".into(), readonly: true }],
            Recreate,
            false,
            "mounts: added /d from /s (readonly)",
        );
        one(|s| s.home.path = "/volumes/i.ext4".into(), Recreate, false, "home volume: h → i");
        one(|s| s.network.profile = NetworkProfile::Public, Recreate, false, "network: none → public");
        one(
            |s| s.network.egress_allow = vec!["a:1".into(), "b".into()],
            Recreate,
            false,
            "egress-allow: added a:1, b",
        );
        one(|s| s.ssh_agent = true, Recreate, false, "ssh-agent: none → the user's");
        one(|s| s.resources.cpus = 3, Live, false, "cpus: 2 → 3");
        one(|s| s.resources.memory = ByteSize::gib(9), Live, false, "memory: 4G → 9G");
        one(
            |s| s.image_digest = "b".repeat(64).parse().unwrap(),
            Recreate,
            true,
            "image: sha256:aaaaaaaaaaaa → sha256:bbbbbbbbbbbb",
        );
    }

    #[test]
    fn of_a_long_list_only_what_changed_is_told() {
        let names = |from: u32, to: u32| (from..to).map(|n| format!("{n}.example")).collect::<Vec<_>>();
        let mut have = example();
        have.network.egress_allow = names(0, 40);
        let want = |egress_allow: Vec<String>| {
            let mut want = have.clone();
            want.network.egress_allow = egress_allow;
            drift(&have, &want).iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
        };
        assert_eq!(want(names(1, 41)), "egress-allow: added 40.example; removed 0.example");
        let all = "egress-allow: removed 0.example, 1.example, 2.example, 3.example, 4.example and 35 more";
        assert_eq!(want(Vec::new()), all);
    }

    #[test]
    fn images_that_begin_alike_are_told_apart() {
        let digest = format!("{}b", "a".repeat(63));
        assert_eq!(changed(|spec| spec.image_digest = digest.parse().unwrap()).len(), 1);
    }

    #[test]
    fn no_value_of_a_variable_is_shown() {
        let changes = changed(|spec| {
            spec.env.insert("MINE".into(), "hunter2".into());
            spec.env.insert("NEW".into(), "hunter3".into());
            spec.env.remove("OPENCODE_DISABLE_MODELS_FETCH");
        });
        let text = changes[0].to_string();
        assert_eq!(text, "env: MINE, OPENCODE_DISABLE_MODELS_FETCH → MINE (another value), NEW");
    }

    #[test]
    fn a_secret_that_changed_is_told_by_name_and_host() {
        let secret = |host: &str, fingerprint: &str| SecretSpec {
            name: "TOKEN".into(),
            hosts: vec![host.parse().unwrap()],
            headers: vec!["authorization".into()],
            query: false,
            body: false,
            fingerprint: fingerprint.into(),
        };
        let told = |have: Vec<SecretSpec>, want: Vec<SecretSpec>| {
            let spec = |secrets| SandboxSpec { secrets, ..example() };
            let changes = drift(&spec(have), &spec(want));
            assert!(changes.iter().all(|change| change.class == Class::Recreate && !change.fixed));
            changes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
        };
        let (a, b) = (secret("a.example", "1"), secret("b.example", "1"));
        assert_eq!(told(vec![a.clone()], vec![a.clone()]), "");
        assert_eq!(told(vec![], vec![a.clone()]), "secrets: nothing → TOKEN for a.example");
        assert_eq!(told(vec![a.clone()], vec![]), "secrets: TOKEN for a.example → nothing");
        let text = "secrets: TOKEN for a.example → TOKEN for b.example (changed)";
        assert_eq!(told(vec![a.clone()], vec![b]), text);
        let text = "secrets: TOKEN for a.example → TOKEN for a.example (another value)";
        assert_eq!(told(vec![a], vec![secret("a.example", "2")]), text);
    }

    #[test]
    fn the_agents_configuration_is_a_change_of_its_own_only_without_a_harder_one() {
        fn facts<'a>(spec: &'a SandboxSpec, agent_config: &'a str) -> Facts<'a> {
            Facts { spec, agent_config: Some(agent_config) }
        }
        let (spec, mut other) = (example(), example());
        let changes = drift(facts(&spec, "1"), facts(&spec, "2"));
        assert_eq!(changes.iter().map(|c| c.class).collect::<Vec<_>>(), [Class::DaemonRestart]);
        assert_eq!(drift(facts(&spec, "1"), facts(&spec, "1")), []);
        assert_eq!(drift(&spec, Facts { spec: &spec, agent_config: Some("1") }), []);
        other.resources.cpus = 1;
        assert_eq!(drift(facts(&spec, "1"), facts(&other, "2")).len(), 2);
        other.tmp = ByteSize::gib(7);
        let changes = drift(facts(&spec, "1"), facts(&other, "2"));
        assert_eq!(changes.iter().map(|c| c.setting).collect::<Vec<_>>(), ["tmp-size", "cpus"]);
    }

    #[test]
    fn the_home_is_asked_about_exactly_when_its_image_changed_and_the_sandbox_is_made_anew() {
        let (a, b): (Digest, Digest) = ("a".repeat(64).parse().unwrap(), "b".repeat(64).parse().unwrap());
        assert!(home_choice_needed(Some(&a), &b, true));
        assert!(!home_choice_needed(Some(&a), &b, false), "a rebuild that waits asks when it is done");
        assert!(!home_choice_needed(Some(&a), &a, true), "another disk size alone is no reason");
        assert!(!home_choice_needed(None, &b, true), "there is nothing yet to keep");
    }
}

use sandbox_config::widening;

use crate::lab::Lab;

fn widened(user: &str, project: &str) -> Vec<String> {
    let lab = Lab::new();
    lab.user("config.yaml", user);
    let file = lab.project("config.yaml", project);
    let layer = lab.load().project.unwrap();
    assert_eq!(layer.file, file);
    let root = lab.root().to_str().unwrap().to_owned();
    widening(&layer)
        .into_iter()
        .map(|w| format!("{}:{} {}", w.line, w.key, w.text.replace(&root, "")))
        .collect()
}

#[test]
fn everything_that_widens_is_listed_with_its_text_and_line() {
    let project = "docker: true\nnetwork:\n  profile: public\n  egress-allow: [a.example]\n  dns-servers: 1.1.1.1\nprovision-host-config: true\nmounts: {/data: /srv}\nhome:\n  .x: {source: x.sh, hook: startup}\nimage: {base: evil.example/base}\nupgrade: {mode: auto}\nauto-prune-age: 1s\nssh: {agent: true, keys: []}\ngit: {signing: true}\n";
    assert_eq!(
        widened("", project),
        [
            "10:image.base evil.example/base",
            "1:docker true",
            "6:provision-host-config true",
            "3:network.profile public",
            "4:network.egress-allow a.example",
            "5:network.dns-servers 1.1.1.1:53",
            "13:ssh.agent true",
            "13:ssh.keys ",
            "14:git.signing true",
            "12:auto-prune-age 1s",
            "11:upgrade.mode auto",
            "7:mounts./data /srv",
            "9:home..x /project/.agents-sandbox/x.sh (run at startup)",
        ]
    );
}

#[test]
fn the_old_name_of_docker_widens_too() {
    assert_eq!(widened("", "dind: true\n"), ["1:docker true"]);
}

#[test]
fn what_tightens_or_only_sizes_is_not_listed() {
    let project = "memory: 8G\ncpus: 2\nagent: pi\ndocker: false\nssh: {agent: false}\ngit: {signing: false}\nnetwork: {profile: none, egress-allow: [], egress-deny: [a.example]}\nprovision-host-config: false\nmounts:\n";
    assert_eq!(widened("network: {profile: public}\ndocker: true\n", project), [] as [String; 0]);
}

#[test]
fn what_the_user_set_is_not_the_projects_doing() {
    assert_eq!(widened("docker: true\nmounts: {/data: /srv}\n", "memory: 8G\n"), [] as [String; 0]);
}

#[test]
fn a_denial_that_the_projects_list_drops_is_listed() {
    let user = "network: {egress-deny: [a.example, b.example]}\n";
    assert_eq!(
        widened(user, "network: {egress-deny: [b.example, c.example]}\n"),
        ["0:network.egress-deny no longer denies a.example"]
    );
    assert_eq!(
        widened(user, "network: {egress-deny: []}\n"),
        ["0:network.egress-deny no longer denies a.example, b.example"]
    );
    assert_eq!(widened(user, "network: {profile: none}\n"), [] as [String; 0]);
}

#[test]
fn a_project_cannot_speak_for_its_user() {
    for (key, text) in [
        ("yes", "yes: true\n"),
        ("qemu.kernel", "qemu: {kernel: k}\n"),
        ("msb.archive", "msb: {archive: m}\n"),
    ] {
        let lab = Lab::new();
        lab.user("config.yaml", text);
        lab.repo("config.yaml", text);
        assert!(lab.load().project.is_none());
        lab.project("config.yaml", text);
        let error = lab.error();
        assert!(error.to_string().ends_with(&format!("a project's file cannot set `{key}`")), "{error}");
    }
}

use std::path::Path;

use sandbox_config::{ConfigError, SecretFiles, SecretSource, secret_files};
use sandbox_model::SecretValue;

use crate::lab::Lab;

fn read(lab: &Lab) -> Result<SecretFiles, ConfigError> {
    secret_files(&lab.inputs.config_dir, lab.inputs.project_dir.as_deref(), Some(Path::new("/home/u")))
}

fn literal(text: &str) -> SecretSource {
    SecretSource::Literal(SecretValue::new(text.into()))
}

#[test]
fn a_higher_file_replaces_a_lower_definition_whole() {
    let lab = Lab::new();
    lab.user("env.secret", "# old\nA=1@a.example\nB=1@a.example\nC=1@a.example\nD=x\n");
    lab.project("env.secret", "B=2@b.example\nC=2@b.example\n");
    lab.user("env.secret.yaml", "C: {value: '3', hosts: [c.example, '*.d.example:8443'], body: true}\n");
    let file = lab.project("env.secret.yaml", "E:\n  from-env: TOKEN\n  allow_any_host_dangerous: true\n");
    let files = read(&lab).unwrap();
    let of = |name: &str| {
        let secret = &files.secrets[name].value;
        let hosts = secret.hosts.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        (secret.source.clone(), hosts, secret.body)
    };
    assert_eq!(of("A"), (literal("1"), "a.example".into(), false));
    assert_eq!(of("B"), (literal("2"), "b.example".into(), false));
    assert_eq!(of("C"), (literal("3"), "c.example *.d.example:8443".into(), true));
    assert_eq!(of("E"), (SecretSource::Env("TOKEN".into()), String::new(), false));
    assert_eq!(files.projects, ["B", "E"], "what the user's file says last is the user's");
    assert_eq!(files.secrets["E"].origin.to_string(), format!("{}:1", file.display()));
    assert_eq!(files.secrets.len(), 4);
    assert_eq!(files.warnings.len(), 1);
    assert!(files.warnings[0].contains("env.secret:5 is left out: it names no host"), "{:?}", files.warnings);
}

#[test]
fn json_is_yaml_and_every_source_has_a_form() {
    let lab = Lab::new();
    lab.user(
        "env.secret.yaml",
        r#"{
  "A": {"value": "", "host": "a.example", "headers": ["X-Own"]},
  "B": {"from-file": "~/token", "host": "a.example, b.example", "headers": true},
  "C": {"from-command": "pass show c", "host": "a.example", "headers": false, "query": true},
  "D": {"from-command": ["gh", "auth", "token"], "host": ".d.example"},
  "E": {"from-keyring": "e", "host": "a.example"},
  "F": {"from-keyring": {"service": "f", "username": "me"}, "host": "a.example"}
}"#,
    );
    let files = read(&lab).unwrap();
    let of = |name: &str| files.secrets[name].value.clone();
    assert_eq!((of("A").source, of("A").headers), (literal(""), vec!["x-own".to_string()]));
    assert_eq!(of("B").source, SecretSource::File("/home/u/token".into()));
    assert_eq!((of("B").hosts.len(), of("B").headers), (2, vec!["*".to_string()]));
    assert_eq!(of("C").source, SecretSource::Command(vec!["pass show c".into()]));
    assert!(of("C").headers.is_empty() && of("C").query);
    assert_eq!(of("D").hosts[0].to_string(), "*.d.example");
    assert!(of("D").headers.contains(&"authorization".to_string()));
    assert_eq!(
        of("F").source,
        SecretSource::Keyring([("service".into(), "f".into()), ("username".into(), "me".into())].into())
    );
    assert!(files.projects.is_empty());
}

#[test]
fn what_is_no_definition_is_named_and_never_shown() {
    for (text, line, message) in [
        ("A: hunter2\n", 1, "A: expected a map, found a text"),
        ("A: {value: hunter2}\n", 1, "A: it says no host"),
        (
            "A: {value: hunter2, from-env: X, host: h.example}\n",
            1,
            "A: it says more than once where the value is",
        ),
        ("A: {host: h.example}\n", 1, "A: it does not say where the value is"),
        ("A:\n  value: [hunter2]\n  host: h.example\n", 2, "A: `value` takes a text"),
        ("A: {value: hunter2, host: 10.0.0.1}\n", 1, "it is an address, and a certificate proves a name"),
        ("A: {value: hunter2, host: 'https://h.example'}\n", 1, "write the host's name alone"),
        ("A: {value: hunter2, host: '*'}\n", 1, "allow-any-host-dangerous"),
        ("A: {value: hunter2, hosts: [h.example], allow-any-host-dangerous: true}\n", 1, "it says both"),
        ("A: {value: hunter2, host: h.example, headers: no}\n", 1, "headers, query and body are all off"),
        ("A: {valeu: hunter2, host: h.example}\n", 1, "unknown key `valeu`"),
        ("LD_PRELOAD: {value: hunter2, host: h.example}\n", 1, "programs act on that variable"),
        ("1A: {value: hunter2, host: h.example}\n", 1, "is not the name of a variable"),
        ("A: {value: hunter2\n  hunter2: [\n", 3, "not valid YAML"),
        ("- hunter2\n", 1, "expected the file to be a map from names to secrets, found a list"),
    ] {
        let lab = Lab::new();
        let file = lab.user("env.secret.yaml", text);
        let error = read(&lab).unwrap_err();
        let said = error.to_string();
        assert!(
            said.starts_with(&format!("{}:", file.display())) && said.contains(message),
            "{text}: {said}"
        );
        if line < 3 {
            assert!(said.contains(&format!("env.secret.yaml:{line}:")), "{said}");
        }
        let ConfigError::File(error) = error else { panic!("{error}") };
        let all = format!("{error} {error:?} {} {:?}", error.excerpt(), error.help);
        assert!(!all.contains("hunter2"), "{all}");
        assert!(error.help.is_some(), "{said}");
    }
    let lab = Lab::new();
    lab.user("env.secret", "A=1@h.example\nhunter2\n");
    let said = format!("{:?}", read(&lab).unwrap_err());
    assert!(said.contains("this line has no `=`") && !said.contains("hunter2"), "{said}");
}

#[test]
fn a_projects_file_reads_and_runs_nothing_of_the_host() {
    for source in ["from-command: x", "from-file: /etc/passwd", "from-keyring: mail"] {
        let lab = Lab::new();
        lab.project("env.secret.yaml", &format!("A: {{{source}, host: evil.example}}\n"));
        let error = read(&lab).unwrap_err();
        assert!(error.to_string().contains("a project's file cannot say `from-"), "{error}");
        assert!(error.help().unwrap().contains("~/.config/agents-sandbox/env.secret.yaml"), "{error}");
        // The user's own file can.
        let lab = Lab::new();
        lab.user("env.secret.yaml", &format!("A: {{{source}, host: good.example}}\n"));
        read(&lab).unwrap();
    }
}

#[test]
fn a_projects_file_is_no_link_to_one_of_the_host() {
    let lab = Lab::new();
    let (own, theirs) = (lab.user("elsewhere", "A=1@a.example\n"), lab.project("env.secret", ""));
    std::fs::remove_file(&theirs).unwrap();
    std::os::unix::fs::symlink(&own, &theirs).unwrap();
    assert!(matches!(read(&lab).unwrap_err(), ConfigError::Escape { path, .. } if path == theirs));
    // The user's own file may be one: whoever keeps settings in a repository has links.
    std::fs::remove_file(&theirs).unwrap();
    std::os::unix::fs::symlink(&own, own.with_file_name("env.secret")).unwrap();
    assert_eq!(read(&lab).unwrap().secrets.len(), 1);
}

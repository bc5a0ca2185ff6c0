use insta::assert_snapshot;

use crate::lab::{Lab, yaml};

#[test]
fn a_wrong_value() {
    assert_snapshot!(yaml("# size\nmemory: lots\ncpus: 2\n").excerpt(), @r"
    1 │ # size
    2 │ memory: lots
      │         ^^^^
    ");
    assert_eq!(
        yaml("memory: lots\n").error().to_string().rsplit_once('/').unwrap().1,
        "config.yaml:1:9: `lots` is not a size; write an integer with M or G, such as 512M or 4G (a bare number is MiB)"
    );
}

#[test]
fn an_unknown_key() {
    assert_snapshot!(yaml("memroy: 4G\n").excerpt(), @r"
    1 │ memroy: 4G
      │ ^^^^^^
    ");
}

#[test]
fn an_unknown_key_in_a_section() {
    assert_snapshot!(yaml("network:\n  profile: none\n  egress-alow: []\n").excerpt(), @r"
    2 │   profile: none
    3 │   egress-alow: []
      │   ^^^^^^^^^^^
    ");
}

#[test]
fn a_key_at_the_wrong_level() {
    for text in ["network.profile: public\n", "profile: public\n"] {
        assert_eq!(yaml(text).error().help(), Some("write `profile:` inside `network:`"), "{text}");
    }
}

#[test]
fn an_unknown_key_of_a_mount() {
    assert_snapshot!(yaml("mounts:\n  /data:\n    source: /srv\n    read-only: true\n").excerpt(), @r"
    3 │     source: /srv
    4 │     read-only: true
      │     ^^^^^^^^^
    ");
}

#[test]
fn a_key_like_no_other() {
    let error = yaml("upgrade: {colour: red}\n").error();
    assert_eq!(error.help(), Some("the keys here are agents, interval, mode, source"));
}

#[test]
fn broken_yaml() {
    assert_snapshot!(yaml("memory: 4G\nnetwork: [\n").excerpt(), @r"
    1 │ memory: 4G
    2 │ network: [
      │          ^
    ");
}

#[test]
fn broken_json() {
    let lab = Lab::new();
    lab.user("config.jsonc", "{\n  // ö\n  \"memory\": \"4G\"\n  \"cpus\": 2\n}\n");
    assert_snapshot!(lab.excerpt(), @r#"
    3 │   "memory": "4G"
    4 │   "cpus": 2
      │   ^
    "#);
}

#[test]
fn a_wrong_value_in_json5() {
    let lab = Lab::new();
    lab.project("config.json5", "{\n  // memory: 'x'\n  'tmp-size': 4,\n  memory: '4 gigabytes',\n}\n");
    assert_snapshot!(lab.excerpt(), @r"
    3 │   'tmp-size': 4,
    4 │   memory: '4 gigabytes',
      │           ^^^^^^^^^^^^^
    ");
}

#[test]
fn a_key_that_stands_there_twice() {
    assert_snapshot!(yaml("memory: 1G\nmemory: 2G\n").excerpt(), @r"
    1 │ memory: 1G
    2 │ memory: 2G
      │ ^^^^^^
    ");
    let lab = Lab::new();
    lab.user("config.json", "{\"memory\": \"1G\",\n \"memory\": \"2G\"}");
    assert_snapshot!(lab.excerpt(), @r#"
    1 │ {"memory": "1G",
    2 │  "memory": "2G"}
      │  ^^^^^^^^
    "#);
    assert_snapshot!(yaml("mounts: {/data: /a, /data/: /b}\n").excerpt(), @r"
    1 │ mounts: {/data: /a, /data/: /b}
      │                     ^^^^^^
    ");
}

#[test]
fn the_wrong_kind_of_value() {
    for (text, message) in [
        ("[a]", "expected the file to be a map, found a list"),
        ("memory: [4G]", "expected a size such as 512M or 4G, found a list"),
        ("network: public", "expected `network` to be a map, found a text"),
        ("network: {egress-allow: {a: b}}", "expected a list of texts, found a map"),
        ("network: {egress-allow: [[a]]}", "expected a text, found a list"),
        ("mounts: {/data: {readonly: true}}", "`source` is missing"),
        ("mounts: {/data: srv}", "`srv` is relative"),
        ("mounts: {/data: }", "expected a folder or file of the host, found nothing"),
        ("home: {x: {hook: shutdown}}", "the only hook is `startup`"),
        ("home: {~/x: /y}", "`~/x` starts with `~`; write it relative to the guest's home"),
        ("docker: 7", "`7` is not true or false"),
    ] {
        let error = yaml(text).error().to_string();
        assert!(error.ends_with(&format!(": {message}")), "{text}: {error}");
    }
}

#[test]
fn a_flag_is_named() {
    let mut lab = Lab::new();
    lab.inputs.flags.memory = Some("lots".into());
    assert!(lab.error().to_string().starts_with("--memory: `lots` is not a size"));
    lab.inputs.flags.memory = None;
    lab.inputs.flags.agent = Some("opencod".into());
    let error = lab.error();
    assert_eq!(error.to_string(), "--agent: `opencod` is not one of opencode, opencode2, pi, claude-code");
    assert_eq!(error.help(), Some("did you mean `opencode`?"));
}

#[test]
fn a_mistake_in_a_lower_layer_is_never_hidden() {
    let mut lab = yaml("memory: lots\n");
    lab.inputs.flags.memory = Some("4G".into());
    assert!(lab.error().to_string().contains("config.yaml:1:9"));
    let mut lab = Lab::new();
    lab.user("config.yaml", "docker: true\ndind: maybe\n");
    lab.inputs.flags.docker = Some(true);
    assert!(lab.error().to_string().contains("config.yaml:2:7"));
}

#[test]
fn home_that_is_not_set_is_said() {
    let mut lab = yaml("mounts: {/data: ~/data}\n");
    lab.inputs.environment.clear();
    assert!(lab.error().to_string().ends_with("`~/data` needs HOME to be set to an absolute path"));
}

#[test]
fn control_characters_of_a_file_do_not_reach_the_terminal() {
    let lab = Lab::new();
    lab.project("config.json5", "{\n\tmemory:\t'\u{1b}[2J\u{202e}4G' }\n");
    assert_snapshot!(lab.excerpt(), @r"
    1 │ {
    2 │  memory: '\u{1b}[2J\u{202e}4G' }
      │          ^^^^^^^^^^^^^^^^^^^^^
    ");
    assert!(!lab.error().to_string().contains(['\u{1b}', '\u{202e}']));
}

#[test]
fn a_mark_stands_under_wide_characters() {
    assert_snapshot!(yaml("agent: \"日本\"\n").excerpt(), @r#"
    1 │ agent: "日本"
      │        ^^^^^^
    "#);
}

#[test]
fn a_destination_that_is_none_shows_its_place() {
    for (entry, problem) in [
        ("host:99999", "`99999` is no port; one is from 1 to 65535"),
        ("10.0.0.0/99", "`/99` is no prefix length of this CIDR; one is from 0 to 32"),
        ("https://api.example.com/", "this is a URL; write its host alone, such as api.example.com:443"),
        ("*.example.com", "a suffix is written `.example.com`"),
    ] {
        for list in ["egress-allow", "egress-deny"] {
            let lab = yaml(&format!("network:\n  {list}:\n    - good.example\n    - \"{entry}\"\n"));
            let error = lab.error();
            let told = error.to_string();
            assert!(told.contains(&format!("config.yaml:4:7: `{entry}`: {problem}")), "{told}");
            assert!(error.help().is_some_and(|help| help.contains("`.suffix`")), "{entry}");
        }
    }
    let own = yaml("network: {egress-allow: ['127.0.0.1:80']}\n").error();
    assert_eq!(own.help(), Some("the host's own services are `host`"));
    yaml("network: {egress-deny: ['127.0.0.1:80']}\n").load();
}

/// Settings are written by people who do not know the parser's rules by name.
#[test]
fn what_is_no_yaml_is_said_in_words_of_settings() {
    let documents = [
        "memory: 4G: 5\n",
        "network:\n\tprofile: none\n",
        "agent: \"pi\n",
        "agent: 'pi\ncpus: 2\n",
        "ports: [1, 2\n",
        "mounts: {a: b\n",
        "memory: 4G\nmemory: 5G\n",
        "agent: *pi\n",
        "memory\ncpus: 2\n",
        "memory: 4G\n  cpus: 2\n",
        "a: 1\n---\nb: 2\n",
        "cpus: 2\n memory: 4G\n",
        "agent: @pi\n",
        "}\n",
    ];
    let mut said = String::new();
    for text in documents {
        let error = yaml(text).error().to_string();
        let place = error.rsplit_once("config.yaml:").unwrap().1.to_string();
        said.extend([format!("{text:?}\n"), format!("    {place}\n")]);
        for word in ["scalar", "mapping", "token", "stream", "node", "anchor", "parsing", "simple key"] {
            assert!(!place.contains(word), "{text:?}: {place}");
        }
    }
    assert_snapshot!(said, @r#"
    "memory: 4G: 5\n"
        1:11: not valid YAML: a second `:` in one line, or a line that is indented too far; text with a colon in it needs quotes
    "network:\n\tprofile: none\n"
        2:2: not valid YAML: a tab cannot indent; use spaces
    "agent: \"pi\n"
        1:8: not valid YAML: a quote is not closed
    "agent: 'pi\ncpus: 2\n"
        1:8: not valid YAML: a quote is not closed
    "ports: [1, 2\n"
        1:8: not valid YAML: a bracket is not closed
    "mounts: {a: b\n"
        1:9: not valid YAML: a bracket is not closed
    "memory: 4G\nmemory: 5G\n"
        2:1: not valid YAML: the same name stands there twice
    "agent: *pi\n"
        1:8: not valid YAML: `*` stands for a value that has no name; text that begins with it needs quotes
    "memory\ncpus: 2\n"
        2:5: not valid YAML: a second `:` in one line, or a line that is indented too far; text with a colon in it needs quotes
    "memory: 4G\n  cpus: 2\n"
        2:7: not valid YAML: a second `:` in one line, or a line that is indented too far; text with a colon in it needs quotes
    "a: 1\n---\nb: 2\n"
        3:1: not valid YAML: the file has more than one document; leave out `---`
    "cpus: 2\n memory: 4G\n"
        2:8: not valid YAML: a second `:` in one line, or a line that is indented too far; text with a colon in it needs quotes
    "agent: @pi\n"
        1:8: not valid YAML: this line does not fit to those above it; look at its indentation, colons and quotes
    "}\n"
        1:1: not valid YAML: this line does not fit to those above it; look at its indentation, colons and quotes
    "#);
}

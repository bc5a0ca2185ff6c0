//! Secrets: what the guest has in their place, what is said about them, and what is not.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use insta::assert_snapshot;
use rustix::fs::{SeekFrom, seek};

use crate::environment::{Ran, TestEnvironment};

const FILE: &str = "home/config/agents-sandbox/env.secret.yaml";
const PROJECT: &str = "project/.agents-sandbox/env.secret.yaml";
const VALUES: [&str; 3] = ["sk-literal-4711", "sk-variable-4711", "sk-file-4711"];

fn three() -> TestEnvironment {
    let environment = TestEnvironment::new();
    environment.write("home/token", "sk-file-4711\n");
    environment.write(
        FILE,
        "A: {value: sk-literal-4711, host: a.example}\n\
         B: {from-env: HOST_B, hosts: [b.example, '*.b.example']}\n\
         C:\n  from-file: ~/token\n  host: c.example\n",
    );
    std::fs::set_permissions(environment.path(FILE), PermissionsExt::from_mode(0o600)).unwrap();
    environment
}

fn exec(environment: &TestEnvironment, words: &[&str]) -> Ran {
    environment.finish(environment.command(words).env("HOST_B", VALUES[1]))
}

/// Every file below `dir` in which one of the values stands.
fn leaks(dir: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let kind = path.symlink_metadata().unwrap().file_type();
        if kind.is_dir() {
            leaks(&path, found);
        } else if kind.is_file() {
            let text = written(&std::fs::File::open(&path).unwrap());
            if VALUES.iter().any(|value| text.contains(value)) {
                found.push(path.file_name().unwrap().to_string_lossy().into_owned());
            }
        }
    }
}

/// What is in a file, without the holes of a disk.
fn written(file: &std::fs::File) -> String {
    use std::os::unix::fs::FileExt;
    let (mut text, mut at) = (String::new(), 0);
    while let Ok(start) = seek(file, SeekFrom::Data(at)) {
        at = seek(file, SeekFrom::Hole(start)).unwrap();
        let mut bytes = vec![0; usize::try_from(at - start).unwrap()];
        file.read_exact_at(&mut bytes, start).unwrap();
        text += &String::from_utf8_lossy(&bytes);
    }
    text
}

#[test]
fn the_guest_has_stand_ins_and_no_file_of_ours_a_value() {
    let environment = three();
    let first = exec(&environment, &["shell"]);
    let told = "secrets: A for a.example; B for b.example, *.b.example; C for c.example\n";
    assert!(first.stderr.contains(told), "{first}");
    let said = exec(&environment, &["--log-level", "verbose", "exec", "sh", "-c", "echo $A $B $C; env"]);
    assert!(said.stdout.starts_with("$MSB_A $MSB_B $MSB_C\n"), "{said}");
    assert!(said.stdout.contains("NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt\n"), "{said}");
    assert!(!VALUES.iter().any(|value| said.to_string().contains(value)), "{said}");

    let shown = environment.run(&["sandbox", "inspect"]).success();
    let spec = serde_json::from_str::<serde_json::Value>(&shown).unwrap()["spec"]["secrets"].clone();
    assert_eq!(spec[1]["hosts"], serde_json::json!(["b.example", "*.b.example"]));
    assert_eq!(spec[0]["fingerprint"].as_str().unwrap().len(), 32);
    assert!(!VALUES.iter().any(|value| shown.contains(value)), "{shown}");

    let mut found = Vec::new();
    leaks(&environment.path(""), &mut found);
    found.sort();
    assert_eq!(found, ["env.secret.yaml", "token"], "only what the user wrote has a value");
}

#[test]
fn they_are_shown_by_name_source_and_host() {
    let environment = three();
    let shown = exec(&environment, &["config", "show", "--origin"]).success();
    let rows: Vec<String> = shown
        .lines()
        .filter(|line| line.starts_with("secrets."))
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    assert_snapshot!(rows.join("\n"), @"
    secrets.A for a.example, from a value in the file $ROOT/home/config/agents-sandbox/env.secret.yaml:1
    secrets.B for b.example, *.b.example, from the variable HOST_B of your environment $ROOT/home/config/agents-sandbox/env.secret.yaml:2
    secrets.C for c.example, from the file $ROOT/home/token $ROOT/home/config/agents-sandbox/env.secret.yaml:3
    ");
    let json = environment.json(&["config", "show", "--format", "json"]);
    assert_eq!(json["secrets"]["B"]["from"], "the variable HOST_B of your environment");
    assert!(!VALUES.iter().any(|value| shown.contains(value) || json.to_string().contains(value)));
    let found = environment.run(&["doctor"]);
    assert!(
        found.stdout.contains("A for a.example; B for b.example, *.b.example; C for c.example"),
        "{found}"
    );
}

#[test]
fn another_value_reaches_what_runs_without_a_restart() {
    use std::process::Stdio;

    let environment = three();
    let mut command = environment.command(&["exec", "--", "cat"]);
    let mut held =
        command.env("HOST_B", VALUES[1]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let begin = std::time::Instant::now();
    while environment.run(&["list", "--names", "--running"]).success().is_empty() {
        assert!(begin.elapsed().as_secs() < 60, "it does not run");
    }
    let told = exec(&environment, &["exec", "true"]);
    assert!(told.code == Some(0) && !told.stderr.contains("another value"), "{told}");
    environment.write("home/token", "sk-second-4711");
    let told = exec(&environment, &["exec", "true"]);
    assert!(told.stderr.contains("another value from now on, without a restart: C\n"), "{told}");
    assert!(told.code == Some(0) && !told.to_string().contains("sk-"), "{told}");
    let told = exec(&environment, &["exec", "true"]);
    assert!(!told.stderr.contains("another value"), "once: {told}");
    drop(held.stdin.take());
    held.wait().unwrap();
}

#[test]
fn a_source_that_cannot_be_read_starts_nothing() {
    let environment = three();
    assert_snapshot!(environment.run(&["exec", "true"]), @"
    error: $ROOT/home/config/agents-sandbox/env.secret.yaml:2: the secret B cannot be read from the variable HOST_B of your environment: it is not set
    hint: a secret is one of NAME: {value: …}, {from-env: VARIABLE}, {from-file: PATH}, {from-command: LINE} or {from-keyring: SERVICE}, each with host: or hosts:
    [exit 1]
    ");
    assert_eq!(environment.run(&["list", "--names"]).success(), "");
    environment.write(FILE, "A: {value: sk-literal-4711}\n");
    assert_snapshot!(environment.run(&["exec", "true"]), @"
    error: $ROOT/home/config/agents-sandbox/env.secret.yaml:1:4: A: it says no host; write host, hosts, or allow-any-host-dangerous: true
    hint: write NAME: {from-env: VARIABLE, host: api.example.com}; in the place of from-env also value, from-file, from-command or from-keyring, and hosts: [a, b] for several
    [exit 1]
    ");
    assert_eq!(environment.run(&["list", "--names"]).success(), "");
    // Whoever looks at a sandbox, or ends one, needs no secret.
    for words in [&["list"][..], &["stop"], &["kill"]] {
        environment.run(words).success();
    }
}

#[test]
fn another_value_is_another_sandbox_state_and_is_not_shown() {
    let environment = three();
    exec(&environment, &["exec", "true"]).success();
    exec(&environment, &["stop"]).success();
    environment.write("home/token", "sk-second-4711");
    // What sleeps goes on as it was, until it is told otherwise.
    let told = exec(&environment, &["exec", "true"]);
    assert!(
        told.stderr.contains("changed since: secrets; after `agents-sandbox stop --cold project-"),
        "{told}"
    );
    assert!(!told.to_string().contains("sk-"), "{told}");
    exec(&environment, &["stop", "--cold"]).success();
    let told = exec(&environment, &["--log-level", "verbose", "exec", "true"]);
    let text =
        "changed since the sandbox last ran: secrets: C for c.example → C for c.example (another value)";
    assert!(told.stderr.contains(text), "{told}");
    assert!(!told.to_string().contains("sk-"), "{told}");
    exec(&environment, &["stop"]).success();
    let told = exec(&environment, &["--log-level", "verbose", "exec", "true"]);
    assert!(told.code == Some(0) && !told.stderr.contains("changed since"), "{told}");
}

#[test]
fn a_project_sends_nothing_of_the_users_without_approval_and_runs_nothing_at_all() {
    let environment = TestEnvironment::new();
    environment.write(
        PROJECT,
        "B: {from-env: HOST_B, host: evil.example}\nD: {value: sk-literal-4711, host: d.example}\n",
    );
    let refused = exec(&environment, &["exec", "true"]);
    assert_snapshot!(refused, @"
    error: this project's own files would widen what its sandbox may do, and that is not approved
      │ .agents-sandbox/env.secret.yaml:1  secret B: sends the variable HOST_B of your environment to evil.example
      │ .agents-sandbox/env.secret.yaml:2  secret D: sends a value in the file to d.example
    hint: `agents-sandbox config approve` shows it and asks; with --yes it approves without asking
    [exit 1]
    ");
    assert_eq!(environment.run(&["list", "--names"]).success(), "");
    exec(&environment, &["config", "approve", "--yes"]).success();
    let said = exec(&environment, &["exec", "sh", "-c", "echo $B $D"]).success();
    assert_eq!(said, "$MSB_B $MSB_D\n");
    // Another host is another text.
    environment.write(PROJECT, "B: {from-env: HOST_B, host: other.example}\n");
    let refused = exec(&environment, &["exec", "true"]);
    assert!(
        refused.stderr.contains("sends the variable HOST_B of your environment to other.example"),
        "{refused}"
    );

    environment.write(PROJECT, "B: {from-command: 'touch \"$HOME/ran\"; echo x', host: evil.example}\n");
    let refused = exec(&environment, &["--yes", "exec", "true"]);
    assert!(refused.stderr.contains("a project's file cannot say `from-command`"), "{refused}");
    assert!(!environment.path("home/ran").exists());
    std::fs::remove_file(environment.path(PROJECT)).unwrap();
    environment.write(FILE, "B: {from-command: 'touch \"$HOME/ran\"; echo x', host: good.example}\n");
    exec(&environment, &["exec", "true"]).success();
    assert!(environment.path("home/ran").exists(), "the user's own does run");
}

#[test]
fn a_name_is_a_secret_or_a_variable() {
    let environment = three();
    environment.write("home/config/agents-sandbox/env", "A=plain\n");
    assert_snapshot!(exec(&environment, &["exec", "true"]), @"
    error: $ROOT/home/config/agents-sandbox/env.secret.yaml:1: A is a secret, and a plain variable in an `env` file too
    hint: take A out of the `env` file: the guest gets a stand-in under this name
    [exit 1]
    ");
}

/// A stand-in for the keyring's program: it notes its words, one on a line, and does as `script` says.
fn secret_tool(environment: &TestEnvironment, script: &str) {
    let asked = environment.path("asked");
    let script = format!("#!/bin/sh\nprintf '%s\\n' \"$@\" >>{}\n{script}\n", asked.display());
    let program = environment.write("bin/secret-tool", &script);
    std::fs::set_permissions(program, PermissionsExt::from_mode(0o755)).unwrap();
}

/// With the stand-in before everything else on the PATH.
fn with_keyring(environment: &TestEnvironment, words: &[&str]) -> Ran {
    let mut command = environment.command(words);
    let path = std::env::var("PATH").unwrap();
    environment.finish(command.env("PATH", format!("{}:{path}", environment.path("bin").display())))
}

#[test]
fn the_systems_keyring_is_asked_by_attributes() {
    let environment = TestEnvironment::new();
    environment.write(
        FILE,
        "A: {from-keyring: my service, host: a.example}\n\
         B: {from-keyring: {username: me, service: github}, host: b.example}\n",
    );
    secret_tool(&environment, "case $* in *github*) echo sk-two-4711 ;; *) echo sk-one-4711 ;; esac");
    let said = with_keyring(&environment, &["--log-level", "verbose", "exec", "sh", "-c", "echo $A $B"]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), "$MSB_A $MSB_B\n"), "{said}");
    assert!(!said.to_string().contains("4711"), "{said}");
    let asked = std::fs::read_to_string(environment.path("asked")).unwrap();
    assert_eq!(asked, "lookup\nservice\nmy service\nlookup\nservice\ngithub\nusername\nme\n");
    // What it printed is the value: another is another.
    with_keyring(&environment, &["stop", "--cold"]).success();
    secret_tool(&environment, "case $* in *github*) echo sk-three-4711 ;; *) echo sk-one-4711 ;; esac");
    let told = with_keyring(&environment, &["--log-level", "verbose", "exec", "true"]);
    let changed =
        "changed since the sandbox last ran: secrets: B for b.example → B for b.example (another value)";
    assert!(told.stderr.contains(changed) && !told.to_string().contains("4711"), "{told}");
}

#[test]
fn a_keyring_without_the_entry_or_without_its_program_starts_nothing() {
    let environment = TestEnvironment::new();
    environment.write(FILE, "A: {from-keyring: {service: github, username: me}, host: a.example}\n");
    // As it says that there is none.
    secret_tool(&environment, "exit 1");
    assert_snapshot!(with_keyring(&environment, &["exec", "true"]), @"
    error: $ROOT/home/config/agents-sandbox/env.secret.yaml:1: the secret A cannot be read from the keyring's entry with service github, username me: it ended with exit status: 1; `secret-tool` (package libsecret-tools) asks the keyring
    hint: a secret is one of NAME: {value: …}, {from-env: VARIABLE}, {from-file: PATH}, {from-command: LINE} or {from-keyring: SERVICE}, each with host: or hosts:
    [exit 1]
    ");
    secret_tool(&environment, "echo sk-half-4711; echo cannot unlock >&2; exit 3");
    let said = with_keyring(&environment, &["exec", "true"]);
    assert!(said.stderr.contains("cannot unlock\n") && said.stderr.contains("exit status: 3"), "{said}");
    assert!(!said.to_string().contains("4711"), "{said}");
    secret_tool(&environment, "true");
    let said = with_keyring(&environment, &["exec", "true"]);
    assert!(said.code == Some(1) && said.stderr.contains("it is empty; `secret-tool`"), "{said}");
    std::fs::remove_file(environment.path("bin/secret-tool")).unwrap();
    // An empty folder: this computer may have one.
    let mut command = environment.command(&["exec", "true"]);
    let said = environment.finish(command.env("PATH", environment.path("bin")));
    assert!(
        said.stderr.contains("No such file or directory") && said.stderr.contains("libsecret-tools"),
        "{said}"
    );
    assert_eq!(environment.run(&["list", "--names"]).success(), "");
}

use crate::environment::TestEnvironment;

#[test]
fn everything_that_is_missing_is_told_at_once_with_what_to_do() {
    let environment = TestEnvironment::new();
    let mut command = environment.command(&["doctor"]);
    // Nothing is installed on such a machine.
    command.env("PATH", environment.path("bin"));
    let ran = environment.finish(&mut command);
    assert_eq!(ran.code, Some(1), "{ran}");
    for check in ["qemu", "image engine", "guest kernel"] {
        let row = ran.stdout.lines().find(|line| line.starts_with(check)).unwrap_or_default();
        assert!(row.contains("missing"), "{check}: {ran}");
        assert!(ran.stderr.contains(&format!("hint: {check}: ")), "{check}: {ran}");
    }
}

#[test]
fn programs_get_json() {
    let environment = TestEnvironment::new();
    let ran = environment.run(&["doctor", "--format", "json"]);
    let findings: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let grades: Vec<&str> =
        findings.as_array().unwrap().iter().map(|row| row["grade"].as_str().unwrap()).collect();
    assert!(grades.len() >= 9, "{ran}");
    assert_eq!(ran.code == Some(0), !grades.contains(&"missing"), "{ran}");
    assert!(!environment.path("home/data").exists(), "it makes nothing");
    // Engines make others of their own accord; this is the name of ours.
    let names = std::fs::read_dir(environment.path("run")).unwrap();
    let names: Vec<_> = names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(!names.iter().any(|name| name.starts_with("agents-sandbox-")), "{names:?}");
}

#[test]
fn settings_that_cannot_be_read_are_a_failure_and_the_rest_is_looked_at_all_the_same() {
    let environment = TestEnvironment::new();
    environment.write("home/config/agents-sandbox/config.yaml", "memroy: 4G\n");
    for words in [&["doctor"][..], &["doctor", "--format", "json"]] {
        let ran = environment.run(words);
        assert_eq!(ran.code, Some(1), "{ran}");
        assert!(ran.stderr.contains("memroy") && ran.stdout.contains("qemu"), "{ran}");
    }
}

#[test]
fn the_address_of_the_guest_kernel_is_one_to_look_at() {
    let environment = TestEnvironment::new();
    environment.write(
        "home/config/agents-sandbox/config.yaml",
        "upgrade: {source: 'https://example.org/releases'}\n",
    );
    let ran = environment.run(&["doctor", "--format", "json"]);
    let findings: Vec<serde_json::Value> = serde_json::from_str(&ran.stdout).unwrap();
    let kernel = findings.iter().find(|finding| finding["check"] == "guest kernel").unwrap();
    let (version, arch) = (sandbox_runtime_microsandbox::VERSION, std::env::consts::ARCH);
    let address = format!("the first run asks https://example.org/releases/msb-{version}-{arch}.tar.gz");
    assert_eq!(kernel["detail"], address, "{ran}");
}

#[test]
fn folders_of_others_are_found() {
    use std::os::unix::fs::PermissionsExt;
    let environment = TestEnvironment::new();
    let dir = environment.path("home/state/agents-sandbox");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o777)).unwrap();
    let ran = environment.run(&["doctor"]);
    assert_eq!(ran.code, Some(1), "{ran}");
    assert!(ran.stderr.contains("folders: give it to yourself alone"), "{ran}");
}

#[test]
fn an_agent_without_a_credential_is_said_and_nothing_fails_for_it() {
    let environment = TestEnvironment::new();
    let row = |environment: &TestEnvironment| {
        let ran = environment.run(&["doctor", "--format", "json"]);
        let findings: Vec<serde_json::Value> = serde_json::from_str(&ran.stdout).unwrap();
        findings.into_iter().find(|finding| finding["check"] == "credentials").unwrap()
    };
    environment.write("home/config/agents-sandbox/config.yaml", "agent: claude-code\n");
    assert_eq!(row(&environment)["grade"], "note");
    assert!(row(&environment)["hint"].as_str().unwrap().contains("ANTHROPIC_API_KEY"));
    environment.write("project/.agents-sandbox/env", "ANTHROPIC_API_KEY=x\n");
    assert_eq!(row(&environment)["grade"], "good");
    std::fs::remove_file(environment.path("project/.agents-sandbox/env")).unwrap();
    let mapped = "agent: claude-code\nhome:\n  .claude/.credentials.json:\n";
    environment.write("home/config/agents-sandbox/config.yaml", mapped);
    assert_eq!(row(&environment)["grade"], "good");
}

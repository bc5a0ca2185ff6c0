use insta::assert_snapshot;

use crate::environment::TestEnvironment;

#[test]
fn an_unknown_key_shows_its_place_and_what_was_meant() {
    let environment = TestEnvironment::new();
    environment.write("project/.agents-sandbox/config.yaml", "cpus: 2\nmemroy: 4G\n");
    assert_snapshot!(environment.run(&["config", "show"]), @"
    error: $ROOT/project/.agents-sandbox/config.yaml:2:1: unknown key `memroy`
      │ memroy: 4G
    hint: did you mean `memory`?
    [exit 1]
    ");
    // Every command that works with settings refuses them.
    assert_eq!(environment.run(&["exec", "true"]).code, Some(1));
}

#[test]
fn a_bad_value_shows_its_place() {
    let environment = TestEnvironment::new();
    environment.write("home/config/agents-sandbox/config.yaml", "memory: lots\n");
    assert_snapshot!(environment.run(&["run", "--dry-run"]), @"
    error: $ROOT/home/config/agents-sandbox/config.yaml:1:9: `lots` is not a size; write an integer with M or G, such as 512M or 4G (a bare number is MiB)
      │ memory: lots
    [exit 1]
    ");
    let environment = TestEnvironment::new();
    let mut command = environment.command(&["exec", "true"]);
    command.env("AGENTS_SANDBOX_CPUS", "many");
    assert_snapshot!(environment.finish(&mut command), @"
    error: AGENTS_SANDBOX_CPUS: `many` is not a number of processors from 0 (all) to 255
    [exit 1]
    ");
}

#[test]
fn each_value_knows_where_it_came_from() {
    let environment = TestEnvironment::new();
    environment.write("home/config/agents-sandbox/config.yaml", "agent: pi\nmemory: 2G\ncpus: 1\n");
    environment.write("project/.agents-sandbox/config.yaml", "memory: 3G\n");
    let mut command = environment.command(&["config", "show", "--origin"]);
    command.env("AGENTS_SANDBOX_CPUS", "3");
    let shown = environment.finish(&mut command).success();
    let lines = |keys: &[&str]| {
        let wanted = |line: &&str| keys.iter().any(|key| line.starts_with(&format!("{key} ")));
        let lines: Vec<String> = shown
            .lines()
            .filter(wanted)
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        lines.join("\n")
    };
    assert_snapshot!(lines(&["SETTING", "agent", "cpus", "memory", "tmp-size"]), @"
    SETTING VALUE ORIGIN
    agent pi $ROOT/home/config/agents-sandbox/config.yaml:1
    cpus 3 $AGENTS_SANDBOX_CPUS
    memory 3G $ROOT/project/.agents-sandbox/config.yaml:1
    tmp-size 2G default
    ");
    let json = environment.run(&["config", "show", "--format", "json"]).success();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["memory"], "3G");
    assert_eq!(json["agent"], "pi");
}

/// The agent of the settings decides which sandbox `stop` means, not only the flag.
#[test]
fn commands_without_flags_mean_the_configured_agent() {
    let environment = TestEnvironment::new();
    environment.write("home/config/agents-sandbox/config.yaml", "agent: claude-code\n");
    let told = environment.run(&["stop"]).stderr;
    assert!(told.contains("-claude-code"), "{told}");
    let told = environment.run(&["stop", "--agent", "pi"]).stderr;
    assert!(told.contains("-pi"), "{told}");
}

#[test]
fn settings_reach_the_programs_own_words() {
    let environment = TestEnvironment::new();
    environment.write("home/config/agents-sandbox/config.yaml", "quiet: true\n");
    assert_eq!(environment.run(&["config", "show"]).success(), "");
    let mut command = environment.command(&["stop"]);
    command.env("AGENTS_SANDBOX_LOG_LEVEL", "error");
    assert_eq!(environment.finish(&mut command).stderr, "");
}

use insta::assert_snapshot;

use crate::environment::TestEnvironment;

/// Rows without the spaces that align them.
fn squeezed(text: &str) -> String {
    text.lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn each_file_says_where_it_goes_and_what_becomes_of_it() {
    let environment = TestEnvironment::new();
    environment.write("home/.claude/CLAUDE.md", "be kind");
    environment.write("home/.claude/settings.json", "{}");
    environment.write("home/config/agents-sandbox/claude/settings.json", "{ // mine\n model: 'a' }");
    environment.write("home/config/agents-sandbox/claude/agents/one.md", "user");
    environment.write("project/.agents-sandbox/claude/settings-more.json5", "{ env: { A: '1' } }");
    environment.write("project/.agents-sandbox/claude/agents/one.md", "project");
    let ran = environment.run(&["config", "agent", "claude-code"]);
    assert_snapshot!(squeezed(&ran.success()), @r#"
    claude-code, provision-host-config: false
    FROM FILE IN THE SANDBOX WHAT BECOMES OF IT
    host configuration $ROOT/home/.claude/settings.json ~/.claude/settings.json not copied: provision-host-config is false
    habits $ROOT/home/.claude/CLAUDE.md ~/.claude/CLAUDE.md copied
    user $ROOT/home/config/agents-sandbox/claude/agents/one.md ~/.claude/agents/one.md replaced by $ROOT/project/.agents-sandbox/claude/agents/one.md
    user $ROOT/home/config/agents-sandbox/claude/settings.json ~/.claude/settings.json merged
    project $ROOT/project/.agents-sandbox/claude/agents/one.md ~/.claude/agents/one.md copied
    project $ROOT/project/.agents-sandbox/claude/settings-more.json5 ~/.claude/settings.json merged

    the merged document:
    {
    "model": "a",
    "env": {
    "A": "1"
    }
    }
    "#);
    let ran = environment.run(&["config", "agent", "--agent", "claude-code", "--format", "json"]).success();
    let document: serde_json::Value = serde_json::from_str(&ran).unwrap();
    assert_eq!(document["document"], serde_json::json!({ "model": "a", "env": { "A": "1" } }));
    assert_eq!(document["files"].as_array().unwrap().len(), 6);
    assert_snapshot!(environment.run(&["config", "agent", "pi"]), @"
    pi, provision-host-config: false
    there is no configuration for it: neither here, nor yours
    ");
    let ran = environment.run(&["config", "agent", "pi", "--agent", "opencode"]);
    assert_eq!(ran.code, Some(2), "{ran}");
}

#[test]
fn mappings_are_shown_with_their_place() {
    let environment = TestEnvironment::new();
    assert_snapshot!(environment.run(&["config", "home"]), @"
    no settings map a file into the home; `home:` in them does
    ");
    environment.write("home/.gitconfig", "");
    environment.write(
        "home/config/agents-sandbox/config.yaml",
        "home:\n  .gitconfig:\n  bin/x: {source: ~/x, hook: startup, root: true}\n",
    );
    let ran = environment.run(&["config", "home"]);
    assert_snapshot!(squeezed(&ran.success()), @"
    IN THE SANDBOX FILE ORIGIN
    ~/.gitconfig $ROOT/home/.gitconfig $ROOT/home/config/agents-sandbox/config.yaml:2
    ~/bin/x $ROOT/home/x missing $ROOT/home/config/agents-sandbox/config.yaml:3
    ");
}

#[test]
fn mappings_come_into_the_home_and_hooks_run_once_a_boot_and_a_failing_one_is_a_warning() {
    let environment = TestEnvironment::new();
    environment.write("home/rc", "from here");
    environment.write("home/hook", "echo \"hook in $(basename $PWD)\"; exit 3");
    environment.write(
        "home/config/agents-sandbox/config.yaml",
        "home:\n  .rc: ~/rc\n  bin/hook: {source: ~/hook, hook: startup}\n",
    );
    let ran = environment.run(&["exec", "--", "sh", "-c", "cat ~/.rc"]);
    assert_eq!(ran.stdout, "hook in project\nfrom here", "{ran}");
    assert!(ran.stderr.contains("the startup hook ~/bin/hook ended with exit code 3"), "{ran}");
    let ran = environment.run(&["exec", "--", "sh", "-c", "cat ~/.rc"]);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("from here", ""), "{ran}");
    environment.write("home/config/agents-sandbox/config.yaml", "");
    let ran = environment.run(&["exec", "--", "sh", "-c", "ls -A ~/.rc ~/bin"]);
    assert!(!ran.stdout.contains("rc") && !ran.stdout.contains("hook"), "{ran}");
}

#[test]
fn a_project_maps_only_what_was_approved() {
    let environment = TestEnvironment::new();
    environment.write("home/secret", "hunter2");
    environment.write("project/.agents-sandbox/config.yaml", "home:\n  stolen: ~/secret\n");
    let ran = environment.run(&["exec", "--", "sh", "-c", "cat ~/stolen"]);
    assert_eq!(ran.code, Some(1), "{ran}");
    assert!(ran.stderr.contains("home.stolen"), "{ran}");
    assert!(!ran.to_string().contains("hunter2"), "{ran}");
    let ran = environment.run(&["exec", "--yes", "--", "sh", "-c", "cat ~/stolen"]);
    assert_eq!(ran.stdout, "hunter2", "{ran}");
}

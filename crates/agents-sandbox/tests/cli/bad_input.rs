use insta::assert_snapshot;

use crate::environment::TestEnvironment;

fn refused(words: &[&str]) -> String {
    let ran = TestEnvironment::new().run(words);
    assert_eq!(ran.stdout, "", "{ran}");
    ran.to_string()
}

#[test]
fn values_that_are_none() {
    assert_snapshot!(refused(&["--agent", "opencod"]), @"
    error: invalid value 'opencod' for '--agent <NAME>'
      [possible values: opencode, opencode2, pi, claude-code]

      tip: a similar value exists: 'opencode'

    For more information, try '--help'.
    [exit 2]
    ");
    assert_snapshot!(refused(&["run", "--memory", "4X"]), @"
    error: invalid value '4X' for '--memory <SIZE>': `4X` is not a size; write an integer with M or G, such as 512M or 4G (a bare number is MiB)

    For more information, try '--help'.
    [exit 2]
    ");
    assert_snapshot!(refused(&["--cpus", "300"]), @"
    error: invalid value '300' for '--cpus <COUNT>': 300 is not in 0..=255

    For more information, try '--help'.
    [exit 2]
    ");
    assert_snapshot!(refused(&["--network", "open"]), @"
    error: invalid value 'open' for '--network <PROFILE>'
      [possible values: none, private, host, public]

      tip: a similar value exists: 'none'

    For more information, try '--help'.
    [exit 2]
    ");
    assert_snapshot!(refused(&["--log-level", "loud", "list"]), @"
    error: invalid value 'loud' for '--log-level <LEVEL>'
      [possible values: error, warning, info, verbose]

    For more information, try '--help'.
    [exit 2]
    ");
    assert_snapshot!(refused(&["list", "--format", "yaml"]), @"
    error: invalid value 'yaml' for '--format <FORMAT>'
      [possible values: json]

    For more information, try '--help'.
    [exit 2]
    ");
    assert_snapshot!(refused(&["list", "--label", "=x"]), @"
    error: invalid value '=x' for '--label <KEY=VALUE>': a label is written KEY=VALUE, for example project=my-repo

    For more information, try '--help'.
    [exit 2]
    ");
    assert_snapshot!(refused(&["list", "--names", "--format", "json"]), @"
    error: the argument '--names' cannot be used with '--format <FORMAT>'

    Usage: agents-sandbox list --names

    For more information, try '--help'.
    [exit 2]
    ");
    assert_snapshot!(refused(&["sandbox", "remove", "../x"]), @"
    error: invalid value '../x' for '<NAME>': `../x` is not a sandbox name: it must have 1 to 128 characters from a-z, A-Z, 0-9, `.`, `_` and `-`, and start with a letter or digit

    For more information, try '--help'.
    [exit 2]
    ");
}

#[test]
fn words_in_the_wrong_place() {
    assert_snapshot!(refused(&["--cpus", "2", "stop"]), @"
    error: --cpus stands before `stop` and would have no effect there

    Usage: agents-sandbox [OPTIONS] [AGENT_ARG]... [-- AGENT_ARG...]
           agents-sandbox <COMMAND>

    For more information, try '--help'.
    [exit 2]
    ");
    assert_snapshot!(refused(&["fix", "--docker", "list"]), @"
    error: words for the agent stand before `list`; put all of them after `--`

    Usage: agents-sandbox [OPTIONS] [AGENT_ARG]... [-- AGENT_ARG...]
           agents-sandbox <COMMAND>

    For more information, try '--help'.
    [exit 2]
    ");
    assert_snapshot!(refused(&["stop", "now"]), @"
    error: there is no sandbox `now`
    hint: `agents-sandbox list` shows the sandboxes there are
    [exit 1]
    ");
    assert_snapshot!(refused(&["list", "--colour"]), @"
    error: unexpected argument '--colour' found

    Usage: agents-sandbox list [OPTIONS]

    For more information, try '--help'.
    [exit 2]
    ");
    assert_snapshot!(refused(&["sandbox", "remov", "x"]), @"
    error: unrecognized subcommand 'remov'

      tip: some similar subcommands exist: 'rm', 'remove'

    Usage: agents-sandbox sandbox [OPTIONS] <COMMAND>

    For more information, try '--help'.
    [exit 2]
    ");
    assert_snapshot!(refused(&["exec"]), @"
    error: the following required arguments were not provided:
      <COMMAND>...

    Usage: agents-sandbox exec <COMMAND>...

    For more information, try '--help'.
    [exit 2]
    ");
    assert_snapshot!(refused(&["exec", "-t", "--", "true"]), @"
    error: -t needs a terminal on stdin, and stdin is none
    hint: leave -t out: pipes work without it
    [exit 2]
    ");
    assert_snapshot!(refused(&["exec", "-e", "=x", "--", "true"]), @"
    error: `=x` is not a variable; write KEY=VALUE
    [exit 2]
    ");
}

#[test]
fn a_home_that_is_not_there() {
    let environment = TestEnvironment::new();
    let mut command = environment.command(&["list"]);
    for variable in ["HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"] {
        command.env_remove(variable);
    }
    assert_snapshot!(environment.finish(&mut command), @"
    error: neither XDG_CONFIG_HOME nor HOME is set to an absolute path
    hint: set HOME to your home folder
    [exit 1]
    ");
}

#[test]
fn a_folder_that_is_gone() {
    let environment = TestEnvironment::new();
    let script = "mkdir gone && cd gone && rmdir ../gone && exec \"$0\" stop";
    let mut command = std::process::Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_agents-sandbox")]).current_dir(environment.project());
    environment.seal(&mut command);
    assert_snapshot!(environment.finish(&mut command), @r#"
    error: the current folder was removed
    hint: `cd` to the project's folder; where it was made again, `cd "$PWD"` is enough
    [exit 1]
    "#);
}

#[test]
fn background_processes_refuse_people() {
    assert_snapshot!(refused(&["internal", "share", "--listener-fd", "77"]), @"
    error: descriptor 77 is not open
    [exit 1]
    ");
    assert_snapshot!(refused(&["internal", "nothing"]), @"
    error: there is no background process `nothing`
    [exit 1]
    ");
}

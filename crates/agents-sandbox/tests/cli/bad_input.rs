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
    error: invalid value '300' for '--cpus <COUNT>': `300` is not a number of processors from 0 (all) to 255

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
    error: invalid value '../x' for '[NAME]': `../x` is not the name of a sandbox: it must have 1 to 128 characters from a-z, A-Z, 0-9, `.`, `_` and `-`, and start with a letter or digit

    For more information, try '--help'.
    [exit 2]
    ");
}

/// It would go to the agent, in a sandbox that is made for it.
#[test]
fn a_command_with_a_slip_in_it_is_none() {
    assert_snapshot!(refused(&["exce", "--", "true"]), @"
    error: `exce` is no command; did you mean `agents-sandbox exec`?

      tip: words for the agent stand after `--`: `agents-sandbox -- exce`

    Usage: agents-sandbox [OPTIONS] [AGENT_ARG]... [-- AGENT_ARG...]
           agents-sandbox <COMMAND>

    For more information, try '--help'.
    [exit 2]
    ");
    // A file of that name is what somebody may well say to an agent.
    let environment = TestEnvironment::new();
    assert_eq!(environment.run(&["stpo", "--dry-run"]).code, Some(2));
    for words in [&["--dry-run", "--", "stpo"][..], &["run", "--dry-run", "stpo"], &["hello", "--dry-run"]] {
        environment.run(words).success();
    }
    environment.write("project/stpo", "");
    let shown = environment.run(&["stpo", "--dry-run"]).success();
    assert!(shown.contains("opencode stpo"), "{shown}");
}

/// Whatever stands after it, and where the word is another tool's.
#[test]
fn a_word_that_is_meant_as_a_command_starts_no_sandbox() {
    let environment = TestEnvironment::new();
    for (words, meant) in [
        (&["confg", "show"][..], "config"),
        (&["confg", "show", "--origin"], "config"),
        (&["exex", "true"], "exec"),
        (&["exe", "true"], "exec"),
        (&["prot", "list"], "ports"),
        (&["attach"], "session attach"),
        (&["attach", "2"], "session attach"),
        (&["ps", "-a"], "list"),
        (&["rm", "-f", "it"], "sandbox remove"),
        (&["up", "-d"], "run"),
        (&["start"], "run"),
    ] {
        let ran = environment.run(words);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{words:?}: {ran}");
        let said = format!("`{}` is no command; did you mean `agents-sandbox {meant}`?", words[0]);
        assert!(ran.stderr.contains(&said), "{words:?}: {ran}");
        let door = format!("`agents-sandbox -- {}`", words[0]);
        assert!(ran.stderr.contains(&door), "{words:?}: {ran}");
    }
    assert_eq!(environment.run(&["list", "--names"]).success(), "", "nothing was made");
    let shown = environment.run(&["--dry-run", "--", "start", "the", "server"]).success();
    assert!(shown.contains("opencode start the server"), "{shown}");
}

#[test]
fn a_flag_of_another_command_is_no_value() {
    assert_snapshot!(refused(&["exec", "--network", "none", "--", "true"]), @"
    error: unexpected argument '--network' found

      tip: '--network' is a flag of `run` and `shell`; other commands follow the settings

    Usage: agents-sandbox exec [OPTIONS] <COMMAND>...

    For more information, try '--help'.
    [exit 2]
    ");
}

/// All that have it are found by the definition, and not more of them named than can be read.
#[test]
fn a_flag_of_many_commands_is_told_of_as_one() {
    let environment = TestEnvironment::new();
    for (words, whose) in [
        (
            &["network", "allow", "a.example", "--dry-run"][..],
            "'--dry-run' is a flag of `run`, `shell`, `stop`, `kill`, `build`, `prune` and others\n",
        ),
        (&["exec", "--cold", "true"], "'--cold' is a flag of `stop`\n"),
        (&["list", "--older-than", "5d"], "'--older-than' is a flag of `prune`, `df` and `storage list`\n"),
    ] {
        let ran = environment.run(words);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{words:?}: {ran}");
        assert!(ran.stderr.contains(whose), "{words:?}: {ran}");
        assert!(!ran.stderr.contains("as a value"), "{words:?}: {ran}");
    }
}

/// One that begins with a dash too: it is a value, and no flag that nobody knows.
#[test]
fn every_value_is_refused_with_the_form_that_is_meant() {
    let environment = TestEnvironment::new();
    let size = "write an integer with M or G, such as 512M or 4G";
    let duration = "write for example 10s, 90m, 24h, 7d, 2w or 1h30m";
    for (words, form) in [
        (&["run", "--memory", "-1"][..], size),
        (&["run", "--disk-size", ""], size),
        (&["shell", "--tmp-size", "1.5G"], size),
        (&["shell", "--workspace-quota", "99999999999999999999G"], size),
        (&["run", "--cpus", "-1"], "a number of processors from 0 (all) to 255"),
        (&["run", "--cpus", "1.5"], "a number of processors from 0 (all) to 255"),
        (&["run", "--keep", "-1h"], duration),
        (&["prune", "--older-than", "5"], duration),
        (&["df", "--older-than", "-1d"], duration),
        (&["list", "--limit", "-1"], "write 0 for all, or one such as 20"),
        (&["logs", "--tail", "x"], "write 0 for all, or one such as 20"),
        (&["list", "--label", "project"], "a label is written KEY=VALUE"),
        (&["run", "--agent-version", "a b"], "write for example 1.2.3, or latest"),
        (&["build", "--agent-version", ""], "write for example 1.2.3, or latest"),
        (&["run", "--dns", "1.1.1.1,,"], "write an address such as 1.1.1.1, or address:port"),
        (&["run", "--dns", "1.1.1.1:0"], "write an address such as 1.1.1.1, or address:port"),
        (&["run", "-p", "x:y"], "write HOST:GUEST such as 8080:80"),
        (&["ports", "remove", "99999"], "write its number such as 8080"),
        (&["run", "-w", "../x"], "as in fix-login"),
        (&["worktree", "remove", "../x"], "such as fix-login"),
        (&["session", "end", "-1"], "such as 1"),
        (&["volume", "remove", "a/b"], "it must have 1 to 128 characters"),
        (&["image", "remove", "a b"], "is not the name of an image: it must be a reference such as name:tag"),
        (&["network", "allow", "a b"], "an entry is `host`, an address, a CIDR"),
        (&["exec", "-e", "A B=1", "true"], "write KEY=VALUE"),
    ] {
        let ran = environment.run(words);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{words:?}: {ran}");
        // On a narrow terminal the text would be wrapped; here it is not.
        assert!(ran.stderr.contains(form), "{words:?}: {ran}");
    }
    assert!(!environment.path("runtime/sandboxes").join("project").exists());
    assert_eq!(environment.run(&["list", "--names"]).success(), "", "nothing was made");
}

#[test]
fn a_variable_of_ours_is_heard_everywhere_or_refused_by_name() {
    let environment = TestEnvironment::new();
    let set = |name: &str, value: &str, words: &[&str]| {
        environment.finish(environment.command(words).env(name, value))
    };
    let with = |name: &str, value: &str, words: &[&str]| set(&format!("AGENTS_SANDBOX_{name}"), value, words);
    for (name, value, form) in [
        ("LOG_LEVEL", "loud", "`loud` is not one of error, warning, info, verbose"),
        ("QUIET", "perhaps", "`perhaps` is not true or false"),
    ] {
        for words in [&["df"][..], &["run", "--dry-run"], &["exec", "true"]] {
            let ran = with(name, value, words);
            assert_eq!(ran.code, Some(1), "{words:?}: {ran}");
            assert!(ran.stderr.contains(&format!("AGENTS_SANDBOX_{name}: {form}")), "{words:?}: {ran}");
        }
    }
    for (value, shown) in [("1", false), ("true", false), ("off", true), ("", true)] {
        let ran = with("QUIET", value, &["df"]);
        assert_eq!((ran.code, !ran.stdout.is_empty()), (Some(0), shown), "{value}: {ran}");
    }
    // Under their old names as well, be it by a command without settings or by one with.
    for words in [&["df"][..], &["config", "show"]] {
        let ran = set("OPENCODE_SANDBOX_QUIET", "yes", words);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""), "{words:?}: {ran}");
        let ran = set("OPENCODE_SANDBOX_LOG_LEVEL", "loud", words);
        assert_eq!(ran.code, Some(1), "{words:?}: {ran}");
        assert!(ran.stderr.contains("OPENCODE_SANDBOX_LOG_LEVEL: `loud` is not one of"), "{words:?}: {ran}");
    }
}

#[test]
fn a_wrong_variable_keeps_nobody_from_ending_a_sandbox_or_looking_at_it() {
    let environment = TestEnvironment::new();
    for (name, value, said) in [
        ("AGENTS_SANDBOX_LOG_LEVEL", "loud", "AGENTS_SANDBOX_LOG_LEVEL: `loud` is not one of"),
        ("AGENTS_SANDBOX_QUIET", "perhaps", "AGENTS_SANDBOX_QUIET: `perhaps` is not true or false"),
        ("AGENTS_SANDBOX_MEMORY", "4X", "AGENTS_SANDBOX_MEMORY: `4X` is not a size"),
        ("OPENCODE_SANDBOX_CPUS", "many", "OPENCODE_SANDBOX_CPUS: "),
        ("AGENTS_SANDBOX_AGENT", "opencod", "AGENTS_SANDBOX_AGENT: "),
    ] {
        let with = |words: &[&str]| environment.finish(environment.command(words).env(name, value));
        environment.run(&["exec", "true"]).success();
        let started = with(&["exec", "true"]);
        assert!(started.code == Some(1) && started.stderr.contains(said), "{started}");
        let listed = with(&["list", "--names"]);
        assert_eq!(
            (listed.code, listed.stdout.trim()),
            (Some(0), environment.sandbox().as_str()),
            "{listed}"
        );
        let sandbox = environment.sandbox();
        for words in
            [&["logs"][..], &["sandbox", "inspect"], &["stop"], &["kill"], &["sandbox", "remove", &sandbox]]
        {
            let ran = with(words);
            assert_eq!(ran.code, Some(0), "{name}: {words:?}: {ran}");
            // Of settings that it has nothing to do with, a command with a name is not told.
            let once = usize::from(words.len() < 3 || name.ends_with("LEVEL") || name.ends_with("QUIET"));
            assert_eq!(ran.stderr.matches(said).count(), once, "{name}: {words:?}: {ran}");
            let guessed = name.ends_with("AGENT") && words.len() < 3;
            let told = ran.stderr.contains("so the sandbox of opencode is meant");
            assert_eq!(told, guessed, "{name}: {words:?}: {ran}");
        }
        assert_eq!(environment.run(&["list", "--names"]).success(), "", "{name}");
    }
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
    for variable in ["HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"] {
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

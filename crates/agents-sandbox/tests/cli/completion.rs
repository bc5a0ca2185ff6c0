use std::io::Write;
use std::process::{Command, Stdio};

use crate::environment::TestEnvironment;

#[test]
fn every_shell_gets_a_script() {
    let environment = TestEnvironment::new();
    for (shell, word) in [
        ("bash", "complete -F _agents"),
        ("zsh", "#compdef agents-sandbox"),
        ("fish", "complete -c agents-sandbox"),
        ("powershell", "Register-ArgumentCompleter"),
        ("elvish", "edit:completion:arg-completer"),
    ] {
        let script = environment.run(&["completion", shell]).success();
        assert!(script.contains(word), "{shell}: {script}");
        for known in ["sandbox", "memory"] {
            assert!(script.contains(known), "{shell} does not know {known}");
        }
        // The other two complete no values.
        let values = !["powershell", "elvish"].contains(&shell);
        assert_eq!(script.contains("claude-code"), values, "{shell}");
        assert!(!script.contains("internal"), "{shell} knows what is hidden");
    }
}

/// Bash itself reads the script and completes with it.
#[test]
fn bash_completes_commands_flags_and_values() {
    let environment = TestEnvironment::new();
    let script = environment.run(&["completion", "bash"]).success();
    let function = script.split("complete -F ").nth(1).unwrap().split(' ').next().unwrap();
    let complete = |words: &[&str]| {
        let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        let mut bash = Command::new("bash")
            .args(["--norc", "-s"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let ask = format!(
            "{script}\nCOMP_WORDS=({})\nCOMP_CWORD={}\n{function} agents-sandbox '{}' '{}'\n\
             printf '%s\\n' \"${{COMPREPLY[@]}}\"\n",
            quoted.join(" "),
            words.len() - 1,
            words[words.len() - 1],
            words[words.len() - 2],
        );
        bash.stdin.take().unwrap().write_all(ask.as_bytes()).unwrap();
        let output = bash.wait_with_output().unwrap();
        String::from_utf8(output.stdout).unwrap().lines().map(String::from).collect::<Vec<_>>()
    };
    assert_eq!(complete(&["agents-sandbox", "comp"]), ["completion"]);
    assert_eq!(complete(&["agents-sandbox", "exec", "--inter"]), ["--interactive"]);
    assert_eq!(
        complete(&["agents-sandbox", "run", "--agent", ""]),
        ["opencode", "opencode2", "pi", "claude-code"]
    );
}

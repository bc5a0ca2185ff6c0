//! Every command that takes `--agent` means the agent of the settings without it.

use std::collections::BTreeSet;

use crate::environment::TestEnvironment;
use crate::tmux::Tmux;

/// A command, and words after it with which it names the sandbox, or the image, that it means. There is none, and an
/// error will do.
const COMMANDS: &[(&str, &[&str])] = &[
    ("", &["--dry-run"]),
    ("run", &["--dry-run"]),
    ("shell", &["--dry-run"]),
    ("stop", &["--dry-run"]),
    ("kill", &["--dry-run"]),
    ("logs", &[]),
    ("build", &["--dry-run"]),
    ("build dockerfile", &[]),
    ("session list", &[]),
    ("session end", &["1"]),
    ("worktree list", &[]),
    ("worktree remove", &["fix"]),
    ("sandbox run", &["--dry-run"]),
    ("sandbox shell", &["--dry-run"]),
    ("sandbox stop", &["--dry-run"]),
    ("sandbox kill", &["--dry-run"]),
    ("sandbox remove", &["--dry-run"]),
    ("sandbox inspect", &[]),
    ("image build", &["--dry-run"]),
    ("image build dockerfile", &[]),
    ("image inspect", &[]),
    ("volume migrate", &["--dry-run"]),
    ("volume reset", &["--dry-run"]),
    ("volume edit", &["--dry-run"]),
    ("volume inspect", &[]),
    ("network log", &[]),
    ("ports add", &["8080:80"]),
    ("ports remove", &["8080"]),
    ("config agent", &[]),
    // Makes one, so it is the last.
    ("exec", &["--", "sh", "-c", "echo $HOME"]),
];

/// The one that needs a terminal.
const ATTACH: &str = "session attach";

/// The agents that a text names, by themselves or as a part of a sandbox's or an image's name.
fn named(text: &str) -> BTreeSet<&'static str> {
    // Beside what is meant, another agent's sandbox may be pointed to.
    let text: String =
        text.lines().filter(|line| !line.starts_with("that of ")).collect::<Vec<_>>().join("\n");
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
    let words: Vec<String> = words.map(|word| format!("-{word}-")).collect();
    let agents = ["pi", "claude-code"].into_iter();
    agents.filter(|agent| words.iter().any(|word| word.contains(&format!("-{agent}-")))).collect()
}

fn words<'a>(command: &'a str, flag: &[&'a str], rest: &[&'a str]) -> Vec<&'a str> {
    command.split_whitespace().chain(flag.iter().copied()).chain(rest.iter().copied()).collect()
}

#[test]
fn the_agent_of_the_settings_is_meant_unless_another_is_typed() {
    let environment = TestEnvironment::new();
    // By default it is neither of the two. For opencode, which has a server, one command would start that.
    for (command, rest) in COMMANDS.iter().filter(|(command, _)| *command != "worktree remove") {
        let ran = environment.run(&words(command, &[], rest));
        assert_eq!(named(&ran.to_string()), BTreeSet::new(), "{command}: {ran}");
    }
    environment.write("project/.agents-sandbox/config.yaml", "agent: pi\n");
    for (flag, agent) in [(&[][..], "pi"), (&["--agent", "claude-code"], "claude-code")] {
        for (command, rest) in COMMANDS {
            let ran = environment.run(&words(command, flag, rest));
            assert_eq!(named(&ran.to_string()), BTreeSet::from([agent]), "{command} {flag:?}: {ran}");
        }
    }
    let tmux = Tmux::new(&environment);
    for (flag, agent) in [("", "pi"), ("--agent claude-code", "claude-code")] {
        tmux.fresh(&format!("$P {ATTACH} {flag} 1; echo \"{agent}: code $?\""));
        let screen = tmux.wait_for_line(&format!("{agent}: code 1"));
        let error = screen.lines().find(|line| line.starts_with("error: there is no session 1 in sandbox"));
        assert_eq!(named(error.unwrap_or(&screen)), BTreeSet::from([agent]), "{screen}");
    }
}

/// Those of the reference, so that a new one is not forgotten above.
#[test]
fn every_command_with_the_flag_is_in_the_table() {
    let reference = TestEnvironment::new().run(&["reference"]).success();
    let sections = reference.split("\n## agents-sandbox").skip(1);
    let with_flag = sections.filter(|section| section.contains("\n| `--agent <NAME>` |"));
    let with_flag: BTreeSet<&str> =
        with_flag.filter_map(|section| section.lines().next()).map(str::trim).collect();
    let tested = COMMANDS.iter().map(|(command, _)| *command).chain([ATTACH]).collect();
    assert_eq!(with_flag, tested);
}

#[test]
fn a_name_and_an_agent_are_not_both_taken() {
    let environment = TestEnvironment::new();
    environment.run(&["exec", "true"]).success();
    let name = environment.sandbox();
    let image = environment.json(&["image", "inspect"])["reference"].as_str().unwrap().to_string();
    let volume = environment.json(&["volume", "inspect"])["name"].as_str().unwrap().to_string();
    for (command, thing) in [
        ("stop", &name),
        ("kill", &name),
        ("logs", &name),
        ("sandbox remove", &name),
        ("sandbox inspect", &name),
        ("network log", &name),
        ("image inspect", &image),
        ("volume inspect", &volume),
    ] {
        let ran = environment.run(&words(command, &["--agent", "pi"], &[thing]));
        assert_eq!(ran.code, Some(2), "{command}: {ran}");
        assert!(ran.stderr.contains("--agent"), "{command}: {ran}");
    }
    assert_eq!(environment.sandbox(), name, "it is still there");
}

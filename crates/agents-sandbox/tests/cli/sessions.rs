//! Sessions where the runtime keeps none: nothing of what `run` and `shell` do depends on them.

use insta::assert_snapshot;

use crate::environment::{TestEnvironment, without_hash};
use crate::tmux::Tmux;

#[test]
fn there_are_none_to_list_attach_or_end() {
    let environment = TestEnvironment::new();
    let list = environment.run(&["session", "list"]);
    assert_eq!(list.code, Some(0), "{list}");
    assert!(list.stderr.contains("there is no sandbox project-"), "{list}");
    environment.run(&["exec", "true"]).success();
    let list = environment.run(&["session", "list"]);
    assert!(list.stderr.contains("`agents-sandbox shell` begins one"), "{list}");
    assert_eq!(environment.run(&["sessions", "ls", "--format", "json"]).stdout.trim(), "[]");
    let end = environment.run(&["session", "end", "3"]);
    assert_eq!(end.code, Some(1), "{end}");
    assert_snapshot!(without_hash(&end.stderr), @r"
    error: there is no session 3 in sandbox `project-HASH-opencode`
    hint: `agents-sandbox session list` shows which there are
    ");
    let attach = environment.run(&["session", "attach", "3"]);
    assert_eq!(attach.code, Some(2), "{attach}");
    assert!(attach.stderr.contains("needs a terminal"), "{attach}");
    environment.run(&["stop"]).success();
    let list = environment.run(&["session", "list"]);
    assert!(list.stderr.contains("and its sessions with it"), "{list}");
}

#[test]
fn a_shell_ends_with_its_terminal_where_it_is_not_kept() {
    let environment = TestEnvironment::new();
    let tmux = Tmux::new(&environment);
    for words in ["shell", "shell --new"] {
        tmux.fresh(&format!("$P {words}; echo \"code $?\""));
        // The prompt of the shell is the host's own.
        tmux.wait(&format!("a shell for {words}"), |screen| {
            screen
                .trim()
                .lines()
                .last()
                .is_some_and(|last| last.contains("/project") && !last.starts_with("shell>"))
        });
        tmux.line("exit 5");
        tmux.wait_for_line("code 5");
    }
}

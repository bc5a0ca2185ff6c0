//! Worktrees are listed from the checkout's repository: nothing is started to ask for them.

use std::fs;

use crate::environment::TestEnvironment;

/// As git writes it for a worktree that was made in a sandbox.
fn linked(environment: &TestEnvironment, id: &str, pointer: &str) {
    let entry = format!("project/.git/worktrees/{id}");
    environment.write(&format!("{entry}/gitdir"), pointer);
    environment.write(&format!("{entry}/commondir"), "../..\n");
    environment.write(&format!("{entry}/HEAD"), &format!("ref: refs/heads/opencode/{id}\n"));
}

#[test]
fn a_list_starts_nothing() {
    let environment = TestEnvironment::new();
    let list = || environment.run(&["worktree", "list"]);
    assert!(list().stderr.contains("no worktrees"), "without git");
    for dir in ["objects", "refs"] {
        fs::create_dir_all(environment.project().join(".git").join(dir)).unwrap();
    }
    environment.write("project/.git/HEAD", "ref: refs/heads/main\n");
    assert!(list().stderr.contains("no worktrees"), "with git");
    let share = "/home/dev/.local/share/opencode/worktree/abc";
    linked(&environment, "fix-login", &format!("{share}/fix-login/.git\n"));
    linked(&environment, "on-the-host", "/elsewhere/on-the-host/.git\n");
    linked(&environment, "broken", "what is this");
    fs::create_dir(environment.project().join(".git/worktrees/empty")).unwrap();
    let shown = list().success();
    let rows: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows.len(), 2, "{shown}");
    assert_eq!(rows[1], ["fix-login", &format!("{share}/fix-login")]);
    let rows = environment.json(&["worktree", "list", "--format", "json"]);
    assert_eq!(rows[0]["name"], "fix-login", "{rows:#}");
    assert_eq!(environment.run(&["list", "--names"]).success(), "", "nothing was made");
    // Whoever works in the sandbox can write all of this.
    fs::rename(environment.project().join(".git/worktrees"), environment.path("moved")).unwrap();
    std::os::unix::fs::symlink(environment.path("moved"), environment.project().join(".git/worktrees"))
        .unwrap();
    assert!(list().stderr.contains("no worktrees"), "a link leads elsewhere");
}

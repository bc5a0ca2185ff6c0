//! Worktrees are listed from the checkout's repository: nothing is started to ask for them. None is removed with
//! work that is nowhere else.

use std::fs;
use std::process::Command;

use insta::assert_snapshot;

use crate::environment::{Ran, TestEnvironment};
use crate::serve::add_stand_in;

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

/// A repository with a commit on `main`, and the stand-in for opencode2, whose worktrees are in `trees`.
struct Repository(TestEnvironment);

impl Repository {
    fn new() -> Self {
        let new = Self(TestEnvironment::new());
        new.git("project", &["init", "-q", "-b", "main"]);
        new.commit("project");
        add_stand_in(&new.0, "opencode2");
        new
    }

    fn git(&self, folder: &str, words: &[&str]) -> String {
        let mut command = Command::new("git");
        self.0.seal(&mut command);
        command
            .args(["-c", "user.name=a", "-c", "user.email=a@b", "-C"])
            .arg(self.0.path(folder))
            .args(words);
        self.0.finish(&mut command).success()
    }

    fn commit(&self, folder: &str) {
        self.git(folder, &["commit", "-q", "--allow-empty", "-m", folder]);
    }

    /// As the server makes it.
    fn add_worktree(&self) {
        self.git("project", &["worktree", "add", "-q", "-b", "opencode/fix", "../trees/fix"]);
    }

    fn remove(&self, words: &[&str]) -> Ran {
        self.0.run(&[&["worktree", "remove", "--agent", "opencode2", "fix"], words].concat())
    }

    /// The error of a removal, with everything still there.
    fn refused(&self) -> String {
        let head = || self.git("trees/fix", &["rev-parse", "HEAD"]);
        let before = head();
        let ran = self.remove(&[]);
        assert_eq!(ran.code, Some(1), "{ran}");
        assert_eq!(head(), before);
        let error = ran.stderr.find("error:").unwrap_or_else(|| panic!("{ran}"));
        ran.stderr[error..].replace(before.trim(), "HASH")
    }

    fn branches(&self) -> String {
        self.git("project", &["branch", "--format", "%(refname:short)"])
    }
}

#[test]
fn what_only_a_worktree_has_is_not_lost_unasked() {
    let repository = Repository::new();
    repository.add_worktree();
    repository.remove(&[]).success();
    assert_eq!(repository.branches(), "main\n");

    repository.add_worktree();
    repository.commit("trees/fix");
    assert_snapshot!(repository.refused(), @"
    error: the worktree `fix` has 1 commit that only its branch `opencode/fix` has
    hint: `git merge opencode/fix` takes the commits over into what is checked out here; `git push REMOTE opencode/fix` keeps them as well
    hint: `agents-sandbox worktree remove --force fix` removes it with all that
    ");
    repository.git("project", &["merge", "-q", "opencode/fix"]);
    repository.remove(&[]).success();
    assert_eq!(repository.branches(), "main\n");

    repository.add_worktree();
    fs::write(repository.0.path("trees/fix/new"), "").unwrap();
    assert_snapshot!(repository.refused(), @"
    error: the worktree `fix` has changes that are not committed (1 file)
    hint: `agents-sandbox worktree remove --force fix` removes it with all that
    ");
    // A branch whose name does something where a shell reads it.
    repository.git("trees/fix", &["switch", "-q", "-c", "a;id"]);
    repository.git("trees/fix", &["add", "new"]);
    repository.commit("trees/fix");
    assert_snapshot!(repository.refused(), @"
    error: the worktree `fix` has 1 commit that only its branch `a;id` has
    hint: `git branch NAME HASH` gives the commits a branch that stays
    hint: `agents-sandbox worktree remove --force fix` removes it with all that
    ");
    repository.remove(&["--force"]).success();
    assert!(!repository.0.path("trees/fix").exists());
}

#[test]
fn a_worktree_that_git_cannot_look_at_stays() {
    let repository = Repository::new();
    repository.add_worktree();
    fs::write(repository.0.path("trees/fix/.git"), "gone").unwrap();
    let ran = repository.remove(&[]);
    assert_eq!(ran.code, Some(1), "{ran}");
    assert!(ran.stderr.contains("error: git cannot say what only the worktree `fix` has: "), "{ran}");
    assert!(ran.stderr.contains("worktree remove --force fix` removes it, whatever is in it"), "{ran}");
    assert!(repository.0.path("trees/fix").exists());
}

//! What only a worktree has, and would be lost with it.

use std::fmt;

use sandbox_model::GUEST_WORKSPACE;

use super::{is_hash, run};
use crate::{Context, Result, Up};

/// Of the worktree in `$1` that is called `$2`, beside the checkout in `$3`: a hash, its branch, how many commits
/// only that has, and then its changes.
///
/// A server removes the branch that is checked out there, or the one that it made for it: neither keeps a commit.
/// `--exclude` counts for the next `--branches` alone, and goes without `refs/heads/` there.
const HELD: &str = r#"cd -- "$1" || exit
made=opencode/$2 beside=$(git -C "$3" rev-parse --verify --quiet HEAD)
head=$(git rev-parse --verify HEAD) && changes=$(git status --porcelain) || exit
branch=$(git symbolic-ref --quiet HEAD); branch=${branch#refs/heads/}
only() {
  git rev-list --count "$1" --not ${beside:+"$beside"} ${branch:+"--exclude=$branch"} "--exclude=$made" \
    --branches --remotes --tags
}
commits=$(only "$head") || exit
if [ "$commits" = 0 ] && other=$(git rev-parse --verify --quiet "refs/heads/$made"); then
  commits=$(only "$other") || exit
  [ "$commits" = 0 ] || { head=$other branch=$made; }
fi
printf '%s\n' "$head" "$branch" "$commits" "$changes""#;

/// What a worktree's removal would lose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Files whose changes are not committed.
    pub changes: usize,
    /// Commits of `head` that no other branch, no remote, no tag and not the checkout has.
    pub commits: usize,
    /// That of `head`; `None` where there is none. The guest says it: it may be any text.
    pub branch: Option<String>,
    /// The whole hash.
    pub head: String,
}

impl Held {
    /// Whether the worktree can go without a loss.
    pub const fn is_nothing(&self) -> bool {
        self.changes == 0 && self.commits == 0
    }
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |count: usize, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
        if self.changes > 0 {
            write!(f, "changes that are not committed ({})", count(self.changes, "file"))?;
        }
        if self.changes > 0 && self.commits > 0 {
            f.write_str(" and ")?;
        }
        match &self.branch {
            _ if self.commits == 0 => Ok(()),
            Some(branch) => {
                write!(f, "{} that only its branch `{branch}` has", count(self.commits, "commit"))
            }
            None => write!(f, "{} that no branch has", count(self.commits, "commit")),
        }
    }
}

/// Asks git in the guest; the inner error is a sentence.
pub fn held(context: &Context<'_>, up: &Up, directory: &str, name: &str) -> Result<Result<Held, String>> {
    let said = run(context, up, HELD, &[directory, name, GUEST_WORKSPACE])?;
    if !said.status.success() {
        return Ok(Err(String::from_utf8_lossy(&said.stderr).trim().to_string()));
    }
    let found = read(&String::from_utf8_lossy(&said.stdout));
    Ok(found.ok_or_else(|| "it does not answer as git does".into()))
}

fn read(answer: &str) -> Option<Held> {
    let mut lines = answer.lines();
    let (head, branch, commits) = (lines.next()?, lines.next()?, lines.next()?);
    Some(Held {
        changes: lines.filter(|line| !line.is_empty()).count(),
        commits: commits.parse().ok()?,
        branch: Some(branch).filter(|branch| !branch.is_empty()).map(Into::into),
        head: Some(head).filter(|head| is_hash(head))?.into(),
    })
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};
    use std::process::Command;

    use super::*;

    /// A repository with a commit on `main`, and its worktree `fix` as a server makes one.
    struct Lab(tempfile::TempDir);

    impl Lab {
        fn new() -> Self {
            let lab = Self(tempfile::tempdir().unwrap());
            fs_err::create_dir(lab.path("main")).unwrap();
            lab.git("main", &["init", "-q", "-b", "main"]);
            lab.commit("main");
            lab.git("main", &["worktree", "add", "-q", "-b", "opencode/fix", "../fix"]);
            lab
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn run(&self, command: &mut Command) -> String {
            command.env("HOME", self.0.path()).env("GIT_CONFIG_NOSYSTEM", "1").env_remove("XDG_CONFIG_HOME");
            let output = command.output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap()
        }

        fn git(&self, tree: &str, words: &[&str]) {
            let mut command = Command::new("git");
            command
                .args(["-c", "user.name=a", "-c", "user.email=a@b", "-C"])
                .arg(self.path(tree))
                .args(words);
            self.run(&mut command);
        }

        fn commit(&self, tree: &str) {
            self.git(tree, &["commit", "-q", "--allow-empty", "-m", tree]);
        }

        /// In words, as an error has them.
        fn held(&self) -> String {
            let mut command = Command::new("sh");
            command.args(["-c", HELD, "sh"]).arg(self.path("fix")).arg("fix").arg(self.path("main"));
            let held = read(&self.run(&mut command)).unwrap();
            assert_eq!(held.is_nothing(), held.to_string().is_empty());
            held.to_string()
        }
    }

    const ONE: &str = "1 commit that only its branch `opencode/fix` has";

    #[test]
    fn commits_count_that_nothing_else_keeps() {
        let lab = Lab::new();
        assert_eq!(lab.held(), "");
        lab.commit("main");
        assert_eq!(lab.held(), "", "what others do is no loss");
        lab.commit("fix");
        assert_eq!(lab.held(), ONE);
        for (keep, lose) in [
            (&["tag", "kept", "opencode/fix"][..], &["tag", "-d", "kept"][..]),
            (&["branch", "kept", "opencode/fix"], &["branch", "-D", "kept"]),
            (
                &["update-ref", "refs/remotes/origin/fix", "opencode/fix"],
                &["update-ref", "-d", "refs/remotes/origin/fix"],
            ),
            (&["merge", "-q", "--no-edit", "opencode/fix"], &["reset", "-q", "--hard", "HEAD~1"]),
        ] {
            lab.git("main", keep);
            assert_eq!(lab.held(), "", "{keep:?}");
            lab.git("main", lose);
            assert_eq!(lab.held(), ONE, "{lose:?}");
        }
        lab.commit("fix");
        fs_err::write(lab.path("fix/new"), "").unwrap();
        assert_eq!(
            lab.held(),
            "changes that are not committed (1 file) and 2 commits that only its branch `opencode/fix` has"
        );
    }

    #[test]
    fn another_branch_or_none_may_be_checked_out() {
        let lab = Lab::new();
        lab.git("fix", &["switch", "-q", "-c", "later"]);
        lab.commit("fix");
        assert_eq!(lab.held(), "1 commit that only its branch `later` has");
        lab.git("fix", &["branch", "-q", "-f", "opencode/fix", "later"]);
        assert_eq!(lab.held(), "1 commit that only its branch `later` has", "both may go");
        lab.git("fix", &["switch", "-q", "--detach", "main"]);
        assert_eq!(lab.held(), "", "`later` stays");
        lab.git("fix", &["branch", "-q", "-D", "later"]);
        assert_eq!(lab.held(), ONE);
        lab.git("fix", &["branch", "-q", "-f", "opencode/fix", "main"]);
        assert_eq!(lab.held(), "");
        lab.commit("fix");
        assert_eq!(lab.held(), "1 commit that no branch has");
    }

    #[test]
    fn a_checkout_without_a_branch_keeps_what_it_is_at() {
        let lab = Lab::new();
        lab.git("main", &["switch", "-q", "--detach"]);
        lab.git("main", &["branch", "-q", "-D", "main"]);
        assert_eq!(lab.held(), "");
        lab.commit("fix");
        assert_eq!(lab.held(), ONE);
    }

    #[test]
    fn only_an_answer_of_git_is_believed() {
        let hash = "0".repeat(40);
        assert!(read(&format!("{hash}\nmain\n0\n\n")).is_some_and(|held| held.is_nothing()));
        for answer in [
            String::new(),
            format!("{hash}\nmain\n"),
            format!("{hash}\nmain\nmany\n"),
            "`id`\nmain\n0\n".into(),
        ] {
            assert_eq!(read(&answer), None, "{answer:?}");
        }
        let gone = Command::new("sh").args(["-c", HELD, "sh"]).arg(Path::new("/nowhere/at/all")).output();
        assert!(!gone.unwrap().status.success());
    }
}

//! Git writes absolute paths into the pointers between a repository and its worktrees. So that both sides
//! understand them, the checkout is visible in the guest under its host path too, and pointers that were
//! written in the guest say that path. A repository outside its checkout is mounted at its host path.

mod stand_in;

use std::path::{Component, Path, PathBuf};

use sandbox_model::{ExecSpec, ExecUser, GUEST_HOME, GUEST_WORKSPACE};

use crate::{Context, Project, Repository, Result, Up};
use stand_in::{KEEP, SHARED, STAND_IN};

/// A link at `$2` to `$1`, unless there is something already.
const LINK: &str = r#"[ -e "$2" ] || [ -L "$2" ] && exit 0
mkdir -p -- "$(dirname -- "$2")" && ln -s -- "$1" "$2""#;

/// What the host has in its root's home is for the guest's other users too. The first line says that this is a guest.
const ENTER_ROOT: &str = r#"grep -q "^[^ ]* $1 virtiofs " /proc/mounts || exit 0
chmod o+x /root"#;

/// Pointers between the repository at `$3` and worktrees inside the checkout, from the guest's path `$1` to
/// the host's, `$2`. One that leads elsewhere (a worktree in the guest's home, say) stays as it is.
const REWRITE: &str = r#"for entry in "$3"/worktrees/*/gitdir; do
  [ -f "$entry" ] && read -r pointer <"$entry" || continue
  case $pointer in "$1"/*) ;; *) continue ;; esac
  [ -f "$pointer" ] && read -r line <"$pointer" || continue
  case $line in "gitdir: $1/"*) printf 'gitdir: %s%s\n' "$2" "${line#"gitdir: $1"}" >"$pointer" ;; esac
  printf '%s%s\n' "$2" "${pointer#"$1"}" >"$entry"
done"#;

/// Makes the checkout visible under its host path, and its repository where a relative pointer leads to it.
/// Needed once a boot; harmless to repeat.
pub fn link_host_path(context: &Context<'_>, project: &Project, up: &Up) -> Result<()> {
    if let Some(root) = host_root(project) {
        // What is made in the home belongs to its owner.
        let user = if root.starts_with(GUEST_HOME) { ExecUser::Dev } else { ExecUser::Root };
        run(context, up, user, LINK, &[GUEST_WORKSPACE, root])?;
    }
    let repository = project.repository.as_ref();
    if project.root.starts_with("/root") || repository.is_some_and(|other| other.path.starts_with("/root")) {
        run(context, up, ExecUser::Root, ENTER_ROOT, &[GUEST_WORKSPACE])?;
    }
    let Some(repository) = repository else { return Ok(()) };
    if let (Some(alias), Some(path)) = (alias(repository), repository.path.to_str()) {
        run(context, up, ExecUser::Root, LINK, &[path, &alias])?;
    }
    if repository.path.join("worktrees").is_dir() {
        let inside = guest_path(project, repository);
        let script = format!("{KEEP}\n{STAND_IN}");
        if let Some(inside) = inside.to_str() {
            run(context, up, ExecUser::Root, &script, &[GUEST_WORKSPACE, inside, SHARED, "/"])?;
        }
    }
    Ok(())
}

/// Lets worktrees that were made in the guest, inside the checkout, work on the host.
pub fn rewrite_worktree_pointers(context: &Context<'_>, project: &Project, up: &Up) -> Result<()> {
    let (Some(root), Some(repository)) = (host_root(project), &project.repository) else { return Ok(()) };
    // Most projects have none, and are not to wait for a command in the guest.
    if !repository.path.join("worktrees").is_dir() {
        return Ok(());
    }
    let inside = guest_path(project, repository);
    let Some(inside) = inside.to_str() else { return Ok(()) };
    run(context, up, ExecUser::Dev, REWRITE, &[GUEST_WORKSPACE, root, inside])
}

/// Where the guest has the repository.
fn guest_path(project: &Project, repository: &Repository) -> PathBuf {
    match repository.path.strip_prefix(&project.root) {
        Ok(below) => Path::new(GUEST_WORKSPACE).join(below),
        Err(_) => repository.path.clone(),
    }
}

/// `None` where there is nothing to do, or the path cannot be said.
fn host_root(project: &Project) -> Option<&str> {
    project.root.to_str().filter(|root| *root != GUEST_WORKSPACE && !root.contains('\n'))
}

/// Where a relative pointer of the checkout leads from the workspace: outside of it, to another place than
/// from the checkout on the host.
fn alias(repository: &Repository) -> Option<String> {
    let mut alias = PathBuf::from(GUEST_WORKSPACE);
    for step in repository.relative.as_ref()?.components() {
        match step {
            Component::Normal(name) => alias.push(name),
            Component::ParentDir => drop(alias.pop()),
            _ => {}
        }
    }
    let elsewhere = alias != repository.path && !alias.starts_with(GUEST_WORKSPACE);
    elsewhere.then(|| alias.to_str().map(String::from)).flatten()
}

/// What fails here is a convenience; it is told to those who ask for details.
fn run(context: &Context<'_>, up: &Up, user: ExecUser, script: &str, arguments: &[&str]) -> Result<()> {
    let mut spec = ExecSpec::new([&["sh", "-c", script, "agents-sandbox"], arguments].concat());
    spec.user = user;
    let ended = context.runtime.exec(&up.name, &spec)?.collect()?;
    if !ended.status.success() {
        let said = String::from_utf8_lossy(&ended.stderr);
        context.reporter.verbose(&format!("the checkout's host path in the sandbox: {}", said.trim()));
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use std::path::Path;
    use std::process::Command;

    use super::*;

    pub(super) fn git(dir: &Path, words: &[&str]) -> String {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(words).current_dir(dir);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn a_relative_pointer_leads_outside_the_workspace() {
        let repository = |relative: &str| Repository {
            path: "/home/me/project/.git".into(),
            relative: Some(relative.into()),
        };
        assert_eq!(alias(&repository("../project/.git")).as_deref(), Some("/project/.git"));
        assert_eq!(alias(&repository("../../a/b/.git")).as_deref(), Some("/a/b/.git"));
        assert_eq!(alias(&repository("./x/../inside/.git")), None);
        assert_eq!(alias(&Repository { relative: None, ..repository("") }), None);
    }

    /// The guest's view is a folder that is renamed to the host's.
    #[test]
    fn worktrees_of_the_guest_work_under_the_host_path() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let (guest, host) = (dir.join("work space"), dir.join("host's"));
        fs_err::create_dir(&guest).unwrap();
        git(&guest, &["init", "--quiet"]);
        git(&guest, &["commit", "--quiet", "--allow-empty", "-m", "one"]);
        git(&guest, &["worktree", "add", "--quiet", "trees/one"]);
        git(&guest, &["worktree", "add", "--quiet", "../elsewhere"]);
        let ran = Command::new("sh")
            .args(["-c", REWRITE, "sh", guest.to_str().unwrap(), host.to_str().unwrap()])
            .arg(guest.join(".git"))
            .output()
            .unwrap();
        assert!(ran.status.success() && ran.stderr.is_empty(), "{ran:?}");
        fs_err::rename(&guest, &host).unwrap();
        let tree = host.join("trees/one");
        assert_eq!(git(&tree, &["status", "--porcelain"]), "");
        git(&tree, &["commit", "--quiet", "--allow-empty", "-m", "two"]);
        let listed = git(&host, &["worktree", "list", "--porcelain"]);
        assert!(listed.contains(&format!("worktree {}\n", tree.display())), "{listed}");
        let elsewhere = fs_err::read_to_string(dir.join("elsewhere/.git")).unwrap();
        assert!(elsewhere.contains("work space"), "only what is inside is rewritten: {elsewhere}");
        // And back, as a guest sees it: a link under the host's path.
        fs_err::rename(&host, &guest).unwrap();
        let made = Command::new("sh")
            .args(["-c", LINK, "sh", guest.to_str().unwrap(), host.to_str().unwrap()])
            .status()
            .unwrap();
        assert!(made.success());
        assert_eq!(git(&guest.join("trees/one"), &["log", "--format=%s"]), "two\none\n");
    }
}

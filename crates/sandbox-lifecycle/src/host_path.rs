//! Git writes absolute paths into the pointers between a repository and its worktrees. So that both sides
//! understand them, the checkout is visible in the guest under its host path too, and pointers that were
//! written in the guest say that path. A repository outside its checkout is mounted at its host path.

mod stand_in;

use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use sandbox_model::{ExecSpec, ExecUser, ExtraMount, GUEST_HOME, GUEST_WORKSPACE, VolumeName};
use sandbox_state::{ProvisionRecord, SandboxFiles, read_record, write_record};
use sha2::{Digest, Sha256};

use crate::{Context, Project, Repository, Result, Up};
use stand_in::{KEEP, SHARED, STAND_IN};
pub use stand_in::{Seen, Worktrees, has_seen, worktrees};

/// For a script. Hundreds of worktrees take minutes without hardware virtualization.
const WITHIN: Duration = Duration::from_mins(10);

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

/// File systems of the guest that are new at each boot.
const PASSING: [&str; 5] = ["/tmp", "/run", "/dev", "/proc", "/sys"];

/// Makes the checkout visible under its host path, and its repository where a relative pointer leads to it; keeps the
/// guest from taking `worktrees` for lost ones, of which `record` says which it has seen. Notes in `record` what it has
/// seen then, and what is not due again on this root disk and `home`: a boot that has nothing to do starts no command
/// in the guest. Needed once a boot; harmless to repeat.
pub fn link_host_path(
    context: &Context<'_>,
    project: &Project,
    up: &Up,
    worktrees: &Worktrees,
    home: Option<&VolumeName>,
    record: &mut ProvisionRecord,
) -> Result<()> {
    let mut steps = Steps::default();
    let mut in_home = None;
    if let Some(root) = host_root(project) {
        if root.starts_with(GUEST_HOME) {
            in_home = Some(root);
        } else {
            steps.link(GUEST_WORKSPACE, root);
        }
    }
    let repository = project.repository.as_ref();
    if project.root.starts_with("/root") || repository.is_some_and(|other| other.path.starts_with("/root")) {
        steps.add(ENTER_ROOT, &[GUEST_WORKSPACE]);
    }
    if let Some(repository) = repository
        && let (Some(alias), Some(path)) = (alias(repository), repository.path.to_str())
    {
        steps.link(path, &alias);
    }
    // Also where there are no worktrees yet: they may be made while the guest runs.
    steps.add(KEEP, &[GUEST_WORKSPACE]);
    let info = context.runtime.inspect(&up.name)?;
    // One that moved to another runtime has another root disk, and was made there.
    let created = info.as_ref().map(|info| info.created);
    let mounts = info.map(|info| info.spec.mounts).unwrap_or_default();
    let once = (!steps.pass).then(|| steps.digest(created, &mounts, home, in_home));
    if once.is_some() && once == record.host_path {
        (steps, in_home) = (Steps::default(), None);
    }
    // What is made in the home belongs to its owner.
    let link = |root| run(context, up, ExecUser::Dev, LINK, &[GUEST_WORKSPACE, root]);
    let linked = in_home.map(link).transpose()?.is_none_or(|ran| ran.success);
    let (seen, success) = see_to(context, project, up, steps, worktrees, &record.worktrees)?;
    record.worktrees = seen;
    record.host_path = once.filter(|_| linked && success);
    Ok(())
}

/// For a sandbox that gets a new root disk: all of [`link_host_path`] is due again.
pub fn begin_anew(files: &SandboxFiles) -> Result<()> {
    let path = files.provision();
    if let Some(mut record) = read_record::<ProvisionRecord>(&path)?
        && record.host_path.take().is_some()
    {
        write_record(&path, &record)?;
    }
    Ok(())
}

/// What of [`link_host_path`] is due when there are worktrees that the guest has not seen.
pub fn see_to_worktrees(
    context: &Context<'_>,
    project: &Project,
    up: &Up,
    worktrees: &Worktrees,
    seen: &Seen,
) -> Result<Seen> {
    see_to(context, project, up, Steps::default(), worktrees, seen).map(|(seen, _)| seen)
}

fn see_to(
    context: &Context<'_>,
    project: &Project,
    up: &Up,
    mut steps: Steps,
    worktrees: &Worktrees,
    seen: &Seen,
) -> Result<(Seen, bool)> {
    let own = stand_in::own(worktrees, seen);
    let inside = project.repository.as_ref().map(|repository| guest_path(project, repository));
    if let Some(inside) = inside.as_deref().and_then(Path::to_str)
        && !worktrees.is_empty()
    {
        steps.add(STAND_IN, &[&[GUEST_WORKSPACE, inside, SHARED, "/"], own.as_slice()].concat());
    }
    if steps.scripts.is_empty() {
        return Ok((Seen::new(), true));
    }
    let words: Vec<&str> = steps.words.iter().map(String::as_str).collect();
    let ran = run(context, up, ExecUser::Root, &steps.script(), &words)?;
    Ok((stand_in::seen(worktrees, &own, &ran.said), ran.success))
}

/// Commands of one call, because each call takes a moment on the way to the prompt.
#[derive(Default)]
struct Steps {
    scripts: Vec<String>,
    words: Vec<String>,
    /// One of them makes what is gone at the next boot.
    pass: bool,
}

impl Steps {
    /// `script` finds `words` from `$1` on, and those of later steps behind them. What it ends, it ends for itself.
    fn add(&mut self, script: &str, words: &[&str]) {
        let before = self.words.len();
        self.scripts.push(format!("(shift {before}\n{script}\n) || failed=yes\n"));
        self.words.extend(words.iter().map(ToString::to_string));
    }

    fn link(&mut self, target: &str, at: &str) {
        self.pass |= PASSING.iter().any(|passing| Path::new(at).starts_with(passing));
        self.add(LINK, &[target, at]);
    }

    /// Of all that is done on the root disk and in this home, beneath `mounts`: where one of those has the host's path
    /// there is nothing to do, until it is gone.
    fn digest(
        &self,
        created: Option<i64>,
        mounts: &[ExtraMount],
        home: Option<&VolumeName>,
        in_home: Option<&str>,
    ) -> String {
        let mounts: Vec<&str> = mounts.iter().map(|mount| mount.target.as_str()).collect();
        let all = (created, mounts, home.map(VolumeName::as_str), in_home, LINK, self.script(), &self.words);
        hex::encode(Sha256::digest(format!("{all:?}")))
    }

    fn script(&self) -> String {
        format!("failed=\n{}[ -z \"$failed\" ]", self.scripts.concat())
    }
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
    run(context, up, ExecUser::Dev, REWRITE, &[GUEST_WORKSPACE, root, inside]).map(drop)
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

struct Ran {
    said: String,
    success: bool,
}

/// What fails here is a convenience; it is told to those who ask for details.
fn run(context: &Context<'_>, up: &Up, user: ExecUser, script: &str, arguments: &[&str]) -> Result<Ran> {
    let mut spec = ExecSpec::new([&["sh", "-c", script, "agents-sandbox"], arguments].concat());
    spec.user = user;
    let ended = context
        .runtime
        .exec(&up.name, &spec)?
        .collect_within("a script for the checkout's host path", WITHIN)?;
    let success = ended.status.success();
    if !success {
        let said = String::from_utf8_lossy(&ended.stderr);
        context.reporter.verbose(&format!("the checkout's host path in the sandbox: {}", said.trim()));
    }
    Ok(Ran { said: String::from_utf8_lossy(&ended.stdout).into_owned(), success })
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
    fn steps_do_not_get_into_each_others_way() {
        let mut steps = Steps::default();
        steps.add("echo \"$1 $2\"; exit 0", &["one", "two words"]);
        steps.add("echo \"$1\"; exit 1", &["three"]);
        steps.add("echo \"$#\"", &["four", "five"]);
        let run = |steps: &Steps| {
            Command::new("sh").args(["-uc", &steps.script(), "sh"]).args(&steps.words).output().unwrap()
        };
        let ran = run(&steps);
        assert_eq!(String::from_utf8(ran.stdout).unwrap(), "one two words\nthree\n2\n");
        assert!(!ran.status.success(), "one has failed");
        assert!(run(&Steps::default()).status.success());
    }

    #[test]
    fn a_path_that_a_mount_had_is_due_again_without_it() {
        let mut steps = Steps::default();
        steps.link(GUEST_WORKSPACE, "/home/me/project");
        let digest = |targets: &[&str]| {
            let mount = |target: &&str| ExtraMount {
                target: (*target).into(),
                source: "/srv/me".into(),
                readonly: true,
            };
            let mounts: Vec<ExtraMount> = targets.iter().map(mount).collect();
            steps.digest(Some(1), &mounts, None, None)
        };
        assert_eq!(digest(&["/home/me"]), digest(&["/home/me"]));
        assert_ne!(digest(&["/home/me"]), digest(&[]));
        assert_ne!(digest(&["/home/me"]), digest(&["/home/you"]));
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

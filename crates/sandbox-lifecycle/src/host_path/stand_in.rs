//! A worktree that the host or another sandbox has looks lost in the guest, and git removes what is known of lost ones:
//! its index, its `HEAD` and where its branch has been.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::UNIX_EPOCH;

use rustix::fs::{Mode, OFlags};
use sandbox_model::VolumeName;
pub use sandbox_state::SeenWorktree;
use sha2::{Digest, Sha256};

use crate::Project;

/// The repository's worktrees by the names of their entries, each with its mark.
pub type Worktrees = BTreeMap<String, String>;
/// Those that the guest has seen to.
pub type Seen = BTreeMap<String, SeenWorktree>;

/// More than anyone has; whoever works in the sandbox can make any number of them.
const MOST: usize = 500;

/// A path and the end of its line, in bytes.
const LONGEST_POINTER: u64 = 8 << 10;

/// `git gc` asks this setting. The first line says that this is a guest, whose settings these are. Where there is no git
/// it is not done: one that is installed later is to have it.
pub const KEEP: &str = r#"grep -q "^[^ ]* $1 virtiofs " /proc/mounts || exit 0
command -v git >/dev/null || { echo 'there is no git to keep from pruning' >&2; exit 1; }
git config --system gc.worktreePruneExpire never"#;

/// The file system of the checkout and of mounts, as `stat -f` names it: FUSE, as all of virtiofs is.
pub const SHARED: &str = "65735546";

/// `git worktree prune` heeds no such setting: it looks for the file that a worktree's entry in the repository `$2`
/// names. An empty one stands for each that the guest does not have, and belongs to whom the folder around it does.
/// What is missing in the checkout or in a mount (a file system `$3`, and not that of `$4`) is missing on the host too,
/// and one of the entries named behind that was removed in this guest: nothing stands for those.
///
/// Says the names of those that are there. The first line says that this is a guest.
pub const STAND_IN: &str = r#"grep -q "^[^ ]* $1 virtiofs " /proc/mounts || exit 0
repository=$2 shared=$3 root=$4
shift 4
for entry in "$repository"/worktrees/*/gitdir; do
  [ -f "$entry" ] && IFS= read -r pointer <"$entry" || continue
  case $pointer in /*) ;; *) pointer=${entry%/gitdir}/$pointer ;; esac
  case $pointer in */.git) ;; *) continue ;; esac
  name=${entry%/gitdir}
  name=${name##*/}
  [ -s "$pointer" ] && printf '%s\n' "$name"
  [ -e "$pointer" ] || [ -L "$pointer" ] && continue
  for own; do [ "$own" = "$name" ] && continue 2; done
  near=${pointer%/.git}
  until [ -e "${near:-/}" ]; do near=${near%/*}; done
  [ "$(stat -f -c %t -- "${near:-/}")" = "$shared" ] &&
    [ "$(stat -c %d -- "${near:-/}")" != "$(stat -c %d -- "$root")" ] && continue
  made=${pointer#"$near"/}
  mkdir -p -- "${pointer%/.git}" && : >"$pointer" &&
    chown -R -- "$(stat -c %u:%g -- "${near:-/}")" "$near/${made%%/*}"
done"#;

/// The worktrees of the project's repository, looked at on the host. Beside another home each has another mark:
/// what the former one had is not in it.
pub fn worktrees(project: &Project, home: Option<&VolumeName>) -> Worktrees {
    let Some(repository) = &project.repository else { return Worktrees::new() };
    // Most projects have none.
    let Ok(entries) = fs_err::read_dir(repository.path.join("worktrees")) else { return Worktrees::new() };
    let marked = entries.flatten().take(MOST).filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        // Not through a link: whoever works in the sandbox may have made it.
        let found = entry.metadata().ok().filter(std::fs::Metadata::is_dir)?;
        let born = found.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let born = born.map_or(0, |born| born.as_nanos());
        let home = home.map(ToString::to_string).unwrap_or_default();
        // Moved on the host, it is where the guest has not had it.
        let place = hex::encode(&Sha256::digest(pointer(&entry.path()).unwrap_or_default())[..8]);
        Some((name, format!("{}-{born}-{place}-{home}", found.ino())))
    });
    marked.collect()
}

/// What an entry says of its worktree's place. Whoever works in the sandbox may have put anything there.
fn pointer(entry: &Path) -> Option<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(entry.join("gitdir"), flags, Mode::empty()).ok()?);
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut text = Vec::new();
    file.take(LONGEST_POINTER).read_to_end(&mut text).ok()?;
    Some(text)
}

/// Whether there is none that the guest has not seen to.
pub fn has_seen(seen: &Seen, worktrees: &Worktrees) -> bool {
    worktrees.iter().all(|(name, mark)| seen.get(name).is_some_and(|seen| seen.mark == *mark))
}

/// The names of those that the guest has had.
pub fn own<'a>(worktrees: &'a Worktrees, seen: &Seen) -> Vec<&'a str> {
    let had = |name: &str, mark: &str| seen.get(name).is_some_and(|seen| seen.here && seen.mark == mark);
    worktrees.iter().filter(|(name, mark)| had(name, mark)).map(|(name, _)| name.as_str()).collect()
}

/// What the guest has seen, where it `said` which it has beside its `own`.
pub fn seen(worktrees: &Worktrees, own: &[&str], said: &str) -> Seen {
    let here = |name: &str| own.contains(&name) || said.lines().any(|line| line == name);
    let worktrees = worktrees.iter();
    worktrees
        .map(|(name, mark)| (name.clone(), SeenWorktree { mark: mark.clone(), here: here(name) }))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
    use std::path::PathBuf;
    use std::process::Command;

    use sandbox_model::GUEST_WORKSPACE;

    use super::super::tests::git;
    use super::*;

    /// Not the file system that anything of a test is on.
    const ELSEWHERE: &str = "/proc";

    /// A repository whose one worktree was moved to where only the host has it.
    struct Place {
        dir: tempfile::TempDir,
    }

    impl Place {
        fn new() -> Self {
            let place = Self { dir: tempfile::tempdir().unwrap() };
            fs_err::create_dir(place.repository()).unwrap();
            git(&place.repository(), &["init", "--quiet"]);
            git(&place.repository(), &["commit", "--quiet", "--allow-empty", "-m", "one"]);
            fs_err::create_dir(place.path("home of dev")).unwrap();
            git(&place.repository(), &["worktree", "add", "--quiet", place.tree().to_str().unwrap()]);
            fs_err::remove_dir_all(place.path("home of dev/opencode")).unwrap();
            place
        }

        fn path(&self, name: &str) -> PathBuf {
            self.dir.path().canonicalize().unwrap().join(name)
        }

        fn repository(&self) -> PathBuf {
            self.path("repository")
        }

        fn tree(&self) -> PathBuf {
            self.path("home of dev/opencode/trees/fix-it")
        }

        fn entry(&self) -> PathBuf {
            self.repository().join(".git/worktrees/fix-it/gitdir")
        }

        fn stand_in(&self, shared: &str) {
            self.stand_in_beside(shared, &[]);
        }

        /// What the guest says, which has had its `own`.
        fn stand_in_beside(&self, shared: &str, own: &[&str]) -> String {
            let common = self.repository().join(".git");
            let (_is_a_guest, script) = STAND_IN.split_once('\n').unwrap();
            let words = ["-uc", script, "sh", "", common.to_str().unwrap(), shared, ELSEWHERE];
            let ran = Command::new("sh").args(words).args(own).output().unwrap();
            assert!(ran.status.success() && ran.stderr.is_empty(), "{ran:?}");
            String::from_utf8(ran.stdout).unwrap()
        }

        fn project(&self) -> Project {
            Project {
                repository: Some(crate::Repository { path: self.repository().join(".git"), relative: None }),
                checkout: sandbox_model::CheckoutSlug::new("project", &self.repository()),
                repo: None,
                root: self.repository(),
                subdir: PathBuf::new(),
                config_dir: self.path("config"),
            }
        }

        /// The file system that all of this is on.
        fn own(&self) -> String {
            let ran = Command::new("stat").args(["-f", "-c", "%t"]).arg(self.dir.path()).output().unwrap();
            String::from_utf8(ran.stdout).unwrap().trim().into()
        }

        fn survives(&self) -> bool {
            git(&self.repository(), &["worktree", "prune"]);
            self.entry().exists()
        }
    }

    #[test]
    fn a_guest_without_git_is_not_done_with() {
        let bin = tempfile::tempdir().unwrap();
        let program = |name: &str, script: &str| {
            let path = bin.path().join(name);
            fs_err::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
            fs_err::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        };
        let keep = || {
            let mut sh = Command::new("/bin/sh");
            sh.args(["-c", KEEP, "sh", GUEST_WORKSPACE]).env("PATH", bin.path()).output().unwrap()
        };
        program("grep", "exit 1");
        assert!(keep().status.success(), "it is no guest");
        program("grep", "exit 0");
        let ran = keep();
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(!ran.status.success() && said.contains("there is no git"), "{ran:?}");
        program("git", "echo \"$*\"");
        let ran = keep();
        assert!(ran.status.success(), "{ran:?}");
        assert_eq!(ran.stdout, b"config --system gc.worktreePruneExpire never\n");
    }

    #[test]
    fn a_worktree_that_the_guest_does_not_have_is_not_pruned() {
        // The control: nothing stands for it.
        assert!(!Place::new().survives());
        let place = Place::new();
        place.stand_in(SHARED);
        assert!(place.survives());
        assert_eq!(fs_err::read(place.tree().join(".git")).unwrap(), b"", "it is no worktree, and says so");
    }

    #[test]
    fn one_that_is_missing_in_a_share_is_missing() {
        let place = Place::new();
        place.stand_in(&place.own());
        assert!(!place.survives());
    }

    #[test]
    fn what_is_made_belongs_to_whom_the_folder_does() {
        let place = Place::new();
        let home = place.path("home of dev");
        let owner =
            if rustix::process::geteuid().is_root() { 4711 } else { fs_err::metadata(&home).unwrap().uid() };
        chown(&home, Some(owner), None).unwrap();
        place.stand_in(SHARED);
        let file = place.tree().join(".git");
        for made in file.ancestors().take_while(|path| **path != *home) {
            assert_eq!(fs_err::metadata(made).unwrap().uid(), owner, "{}", made.display());
        }
        // What was there already stays whose it was.
        fs_err::remove_file(&file).unwrap();
        let kept = place.tree().join("kept");
        fs_err::write(&kept, "").unwrap();
        let mine = fs_err::metadata(&kept).unwrap().uid();
        place.stand_in(SHARED);
        assert_eq!(fs_err::metadata(&file).unwrap().uid(), owner);
        assert_eq!(fs_err::metadata(&kept).unwrap().uid(), mine);
    }

    #[test]
    fn a_relative_pointer_begins_at_its_entry() {
        let place = Place::new();
        let relative = Path::new("../../../../home of dev/opencode/trees/fix-it/.git");
        fs_err::write(place.entry(), format!("{}\n", relative.display())).unwrap();
        place.stand_in(SHARED);
        assert!(place.tree().join(".git").is_file());
    }

    #[test]
    fn what_is_there_is_not_touched() {
        let place = Place::new();
        git(&place.repository(), &["worktree", "prune"]);
        git(&place.repository(), &["worktree", "add", "--quiet", place.tree().to_str().unwrap(), "fix-it"]);
        let before = fs_err::read(place.tree().join(".git")).unwrap();
        place.stand_in(SHARED);
        assert_eq!(fs_err::read(place.tree().join(".git")).unwrap(), before);
    }

    #[test]
    fn one_that_was_removed_in_the_guest_is_lost() {
        let home: VolumeName = "home-1".parse().unwrap();
        let place = Place::new();
        git(&place.repository(), &["worktree", "add", "--quiet", "../home of dev/own"]);
        let found = worktrees(&place.project(), Some(&home));
        assert!(!has_seen(&Seen::new(), &found) && own(&found, &Seen::new()).is_empty());
        let said = place.stand_in_beside(SHARED, &[]);
        assert_eq!(said, "own\n");
        let known = seen(&found, &[], &said);
        assert!(has_seen(&known, &found));
        assert_eq!(own(&found, &known), ["own"]);
        // What stands for another is none of the guest's own.
        assert_eq!(place.stand_in_beside(SHARED, &["own"]), "own\n");

        for tree in [place.path("home of dev/own"), place.tree()] {
            fs_err::remove_dir_all(tree).unwrap();
        }
        let known = seen(&found, &["own"], &place.stand_in_beside(SHARED, &["own"]));
        assert!(place.survives(), "the other's");
        let left = worktrees(&place.project(), Some(&home));
        assert_eq!(left.keys().collect::<Vec<_>>(), ["fix-it"], "the guest's own is lost");
        assert!(has_seen(&known, &left) && known["own"].here);
        // The next of its name is another, and so is the same beside another home.
        git(&place.repository(), &["worktree", "add", "--quiet", "-f", "../home of dev/own", "own"]);
        let again = worktrees(&place.project(), Some(&home));
        assert!(!has_seen(&known, &again) && own(&again, &known).is_empty());
        let elsewhere = worktrees(&place.project(), Some(&"home-2".parse().unwrap()));
        assert!(!has_seen(&known, &elsewhere) && own(&elsewhere, &known).is_empty());
    }

    #[test]
    fn one_that_the_host_moved_is_not_where_the_guest_had_it() {
        let place = Place::new();
        git(&place.repository(), &["worktree", "prune"]);
        git(&place.repository(), &["worktree", "add", "--quiet", place.tree().to_str().unwrap(), "fix-it"]);
        let found = worktrees(&place.project(), None);
        let known = seen(&found, &[], &place.stand_in_beside(SHARED, &[]));
        assert_eq!(own(&found, &known), ["fix-it"]);
        let elsewhere = place.path("of the host/trees");
        fs_err::create_dir_all(&elsewhere).unwrap();
        git(
            &place.repository(),
            &["worktree", "move", place.tree().to_str().unwrap(), elsewhere.to_str().unwrap()],
        );
        // The guest has no such folder.
        fs_err::remove_dir_all(place.path("of the host")).unwrap();
        let moved = worktrees(&place.project(), None);
        assert!(!has_seen(&known, &moved) && own(&moved, &known).is_empty());
        place.stand_in_beside(SHARED, &own(&moved, &known));
        assert!(place.survives());
    }

    #[test]
    fn a_pipe_in_the_place_of_a_pointer_holds_nobody_up() {
        let place = Place::new();
        fs_err::remove_file(place.entry()).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, place.entry(), Mode::RUSR | Mode::WUSR).unwrap();
        assert_eq!(worktrees(&place.project(), None).len(), 1);
    }

    #[test]
    fn a_project_without_worktrees_has_nothing_to_see_to() {
        let place = Place::new();
        git(&place.repository(), &["worktree", "prune"]);
        assert_eq!(worktrees(&place.project(), None), Worktrees::new());
        assert!(has_seen(&Seen::new(), &Worktrees::new()));
    }
}

//! A worktree that the host or another sandbox has looks lost in the guest, and git removes what is known of lost ones:
//! its index, its `HEAD` and where its branch has been.

/// `git gc` asks this setting. The first line says that this is a guest, whose settings these are.
pub const KEEP: &str = r#"grep -q "^[^ ]* $1 virtiofs " /proc/mounts && command -v git >/dev/null || exit 0
git config --system gc.worktreePruneExpire never"#;

/// The file system of the checkout and of mounts, as `stat -f` names it: FUSE, as all of virtiofs is.
pub const SHARED: &str = "65735546";

/// `git worktree prune` heeds no such setting: it looks for the file that a worktree's entry in the repository `$2`
/// names. An empty one stands for each that the guest does not have, and belongs to whom the folder around it does.
/// What is missing in the checkout or in a mount (a file system `$3`, and not that of `$4`) is missing on the host too.
pub const STAND_IN: &str = r#"for entry in "$2"/worktrees/*/gitdir; do
  [ -f "$entry" ] && IFS= read -r pointer <"$entry" || continue
  case $pointer in /*) ;; *) pointer=${entry%/gitdir}/$pointer ;; esac
  case $pointer in */.git) ;; *) continue ;; esac
  [ -e "$pointer" ] || [ -L "$pointer" ] && continue
  near=${pointer%/.git}
  until [ -e "${near:-/}" ]; do near=${near%/*}; done
  [ "$(stat -f -c %t -- "${near:-/}")" = "$3" ] &&
    [ "$(stat -c %d -- "${near:-/}")" != "$(stat -c %d -- "$4")" ] && continue
  made=${pointer#"$near"/}
  mkdir -p -- "${pointer%/.git}" && : >"$pointer" &&
    chown -R -- "$(stat -c %u:%g -- "${near:-/}")" "$near/${made%%/*}"
done"#;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, chown};
    use std::path::{Path, PathBuf};
    use std::process::Command;

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
            let common = self.repository().join(".git");
            let words = ["-euc", STAND_IN, "sh", "", common.to_str().unwrap(), shared, ELSEWHERE];
            let ran = Command::new("sh").args(words).output().unwrap();
            assert!(ran.status.success() && ran.stderr.is_empty(), "{ran:?}");
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
}

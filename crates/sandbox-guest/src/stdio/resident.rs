//! This program in the guest's own memory.
//!
//! The host shows it in a shared folder, and a kernel forgets what it has read of a file there each time that the file
//! is opened, unless the share tells it to keep that; this one does not. Every link would fetch the program anew, two
//! megabytes in pieces of 128 KiB, and so would the daemon what it needs next of its own code, which a link takes from
//! it by being started. So whoever starts the daemon covers the folder with a copy: the host goes on asking for the
//! same path, and finds the copy there until this boot ends, or the file of the share where none could be made.
//!
//! The guest's root may write the copy, and could as well have covered the folder itself.

use std::io;
use std::path::{Path, PathBuf};

use fs_err as fs;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::statfs::{FUSE_SUPER_MAGIC, statfs};

use crate::console::say;

/// The program that runs, wherever it is.
pub const THIS: &str = "/proc/self/exe";

/// Where to start this program from. `aside` is a folder that nobody uses.
pub fn settle(aside: &Path) -> PathBuf {
    // A copy whose daemon has died does not need another.
    if !statfs(THIS).is_ok_and(|found| found.filesystem_type() == FUSE_SUPER_MAGIC) {
        return THIS.into();
    }
    let covered = fs::read_link(THIS).and_then(|program| cover(&program, aside).map(|()| program));
    covered.unwrap_or_else(|error| {
        say(format_args!("every link fetches this program: {error}"));
        THIS.into()
    })
}

/// Covers the folder that `program` is in with one that has a copy of it.
fn cover(program: &Path, aside: &Path) -> io::Result<()> {
    let (Some(folder), Some(name)) = (program.parent(), program.file_name()) else {
        return Err(io::ErrorKind::NotFound.into());
    };
    fs::create_dir_all(aside)?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(Some("tmpfs"), aside, Some("tmpfs"), flags, Some("mode=0755"))?;
    // Whole before it is seen: a link that begins meanwhile finds the one or the other.
    let covered = fs::copy(program, aside.join(name))
        .and_then(|_| Ok(mount(Some(aside), folder, None::<&str>, MsFlags::MS_BIND, None::<&str>)?));
    // What covers the folder stays without it.
    let _ = umount2(aside, MntFlags::MNT_DETACH);
    covered
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    use nix::sys::statfs::TMPFS_MAGIC;
    use nix::unistd::geteuid;

    use super::*;

    /// A folder, set in the process that has mounts of its own.
    const OWN: &str = "SANDBOX_GUEST_TEST_OWN_MOUNTS";

    /// Runs the test of this name again where it may mount; in that process, the folder for it.
    fn own_mounts(test: &str) -> Option<PathBuf> {
        if let Some(dir) = std::env::var_os(OWN) {
            return Some(dir.into());
        }
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new("unshare");
        if !geteuid().is_root() {
            command.args(["--user", "--map-current-user", "--keep-caps"]);
        }
        // Temporary folders may be on what the copy is told by.
        let script = "mount -t ramfs ramfs \"$0\" && exec \"$@\"";
        let output = command
            .args(["--mount", "sh", "-uc", script])
            .arg(dir.path())
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(OWN, dir.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
        None
    }

    #[test]
    fn a_copy_in_memory_covers_the_folder_of_the_program_alone() {
        let name = "stdio::resident::tests::a_copy_in_memory_covers_the_folder_of_the_program_alone";
        let Some(dir) = own_mounts(name) else { return };
        let (mine, other, aside) = (dir.join("share/mine"), dir.join("share/other"), dir.join("run/aside"));
        for folder in [&mine, &other] {
            fs::create_dir_all(folder).unwrap();
            fs::write(folder.join("program"), "code").unwrap();
            fs::set_permissions(folder.join("program"), PermissionsExt::from_mode(0o755)).unwrap();
        }
        let is_copy = |folder: &Path| statfs(folder).unwrap().filesystem_type() == TMPFS_MAGIC;
        assert!(!is_copy(&mine), "before");

        cover(&mine.join("program"), &aside).unwrap();
        let program = mine.join("program");
        assert!(is_copy(&program) && !is_copy(&other.join("program")));
        assert_eq!(fs::read_to_string(&program).unwrap(), "code");
        assert_eq!(fs::metadata(&program).unwrap().permissions().mode() & 0o777, 0o755);
        assert_eq!(fs::metadata(&mine).unwrap().permissions().mode() & 0o777, 0o755);
        assert!(
            !is_copy(&aside) && fs::read_dir(&aside).unwrap().next().is_none(),
            "something is left aside"
        );

        // A file that is gone covers nothing.
        cover(&other.join("program (deleted)"), &aside).unwrap_err();
        assert!(!is_copy(&other) && !is_copy(&aside));
        assert_eq!(fs::read_to_string(other.join("program")).unwrap(), "code");
    }
}

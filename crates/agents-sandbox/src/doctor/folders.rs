use std::os::unix::fs::MetadataExt;
use std::path::Path;

use sandbox_state::Layout;

use super::Finding;

const CHECK: &str = "folders";

/// Ours belong to the caller, and nobody else may write in them.
pub fn check(layout: &Layout) -> Finding {
    let me = rustix::process::geteuid().as_raw();
    for dir in [&layout.config, &layout.state, &layout.data] {
        if let Some(problem) = problem(dir, me) {
            let path = dir.display();
            let hint = format!("give it to yourself alone: `chown -R \"$USER\" {path}; chmod go-w {path}`");
            return Finding::missing(CHECK, format!("{path} {problem}"), hint);
        }
    }
    // The settings are only read.
    for dir in [&layout.state, &layout.data] {
        if dir.exists() && !is_writable(dir) {
            let path = dir.display();
            let hint = "its file system may be mounted read-only; XDG_STATE_HOME and XDG_DATA_HOME name other places";
            return Finding::missing(CHECK, format!("{path} cannot be written"), hint);
        }
    }
    Finding::good(CHECK, format!("{} and its like are yours", layout.data.display()))
}

fn is_writable(dir: &Path) -> bool {
    rustix::fs::access(dir, rustix::fs::Access::WRITE_OK).is_ok()
}

fn problem(dir: &Path, me: u32) -> Option<String> {
    // One that is not there yet is made when it is needed, in the nearest one that is.
    let nearest = dir.ancestors().find(|dir| dir.exists())?;
    let metadata = fs_err::metadata(nearest).ok()?;
    if nearest != dir {
        return (!is_writable(nearest))
            .then(|| format!("cannot be made: {} may not be written", nearest.display()));
    }
    if metadata.uid() != me {
        return Some(format!("belongs to user {}, not to user {me}", metadata.uid()));
    }
    (metadata.mode() & 0o022 != 0).then(|| "may be written by other users".into())
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_ones_own_closed_folders_are_good() {
        let dir = tempfile::tempdir().unwrap();
        let me = rustix::process::geteuid().as_raw();
        assert_eq!(problem(dir.path(), me), None);
        assert_eq!(problem(&dir.path().join("later/on"), me), None);
        assert!(problem(dir.path(), me + 1).unwrap().contains("belongs to user"));
        std::fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
        assert!(problem(dir.path(), me).unwrap().contains("other users"));
    }
}

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::accounts::Account;

/// Why a command cannot run.
#[derive(Debug, PartialEq, Eq)]
pub enum Missing {
    NotFound,
    NotExecutable(PathBuf),
}

/// Finds the program of a command as a shell would: by its path, relative to `cwd`, or in the folders of
/// `path`. A file that may not be executed is only an answer where no other is found.
pub fn find(name: &[u8], path: &str, cwd: &Path, account: &Account) -> Result<PathBuf, Missing> {
    if name.is_empty() {
        return Err(Missing::NotFound);
    }
    let file = OsStr::from_bytes(name);
    if name.contains(&b'/') {
        return judge(cwd.join(file), account).unwrap_or(Err(Missing::NotFound));
    }
    let mut outcome = Err(Missing::NotFound);
    for folder in path.split(':') {
        // An empty entry is the working directory, and so is what a relative one begins with.
        match judge(cwd.join(folder).join(file), account) {
            Some(Ok(program)) => return Ok(program),
            Some(denied) if outcome == Err(Missing::NotFound) => outcome = denied,
            Some(_) | None => {}
        }
    }
    outcome
}

fn judge(candidate: PathBuf, account: &Account) -> Option<Result<PathBuf, Missing>> {
    let metadata = fs_err::metadata(&candidate).ok()?;
    let executable =
        metadata.is_file() && may_execute(metadata.mode(), metadata.uid(), metadata.gid(), account);
    Some(if executable { Ok(candidate) } else { Err(Missing::NotExecutable(candidate)) })
}

fn may_execute(mode: u32, uid: u32, gid: u32, account: &Account) -> bool {
    let bit = if account.uid.is_root() {
        0o111
    } else if account.uid.as_raw() == uid {
        0o100
    } else if account.groups.iter().any(|group| group.as_raw() == gid) {
        0o010
    } else {
        0o001
    };
    mode & bit != 0
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use nix::unistd::{Gid, Uid};

    use super::*;

    fn user(uid: u32, gid: u32) -> Account {
        Account {
            name: "dev".into(),
            uid: Uid::from_raw(uid),
            gid: Gid::from_raw(gid),
            groups: vec![Gid::from_raw(gid)],
            home: "/".into(),
            shell: "/bin/sh".into(),
        }
    }

    fn file(path: &Path, mode: u32) {
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, "").unwrap();
        fs_err::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    }

    #[test]
    fn the_first_executable_in_the_path_wins() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        file(&root.join("a/tool"), 0o644);
        file(&root.join("b/tool"), 0o755);
        file(&root.join("c/tool"), 0o755);
        fs_err::create_dir_all(root.join("b/folder")).unwrap();
        let path = format!("{0}/none:{0}/a:{0}/b:{0}/c", root.display());
        let find = |name: &[u8], path: &str| find(name, path, root, &user(0, 0));
        assert_eq!(find(b"tool", &path), Ok(root.join("b/tool")));
        assert_eq!(find(b"tool", "a"), Err(Missing::NotExecutable(root.join("a/tool"))));
        assert_eq!(find(b"folder", &path), Err(Missing::NotExecutable(root.join("b/folder"))));
        assert_eq!(find(b"ghost", &path), Err(Missing::NotFound));
        assert_eq!(find(b"", &path), Err(Missing::NotFound));
        assert_eq!(find(b"c/tool", ""), Ok(root.join("c/tool")));
        assert_eq!(find(b"./c/ghost", &path), Err(Missing::NotFound));
    }

    #[test]
    fn the_bits_of_the_users_own_class_count() {
        assert!(may_execute(0o100, 7, 8, &user(7, 1)));
        assert!(!may_execute(0o011, 7, 8, &user(7, 8)));
        assert!(may_execute(0o010, 0, 8, &user(7, 8)));
        assert!(may_execute(0o001, 0, 0, &user(7, 8)));
        assert!(!may_execute(0o110, 0, 0, &user(7, 8)));
        assert!(may_execute(0o010, 7, 8, &user(0, 0)));
        assert!(!may_execute(0o644, 7, 8, &user(0, 0)));
    }
}

use std::io::{Read, Write, sink};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use fs_err as fs;
use rustix::fs::OFlags;
use sha2::{Digest, Sha256};

use super::{ContextEntry, ContextError, EntryKind, OURS, ProjectContext, SECRETS};
use crate::compose::CONTEXT_DIR;

impl ProjectContext {
    /// Reads a project's `.agents-sandbox` folder.
    ///
    /// Fails on links that lead out of it, on sockets, pipes and devices, and on our reserved name.
    pub fn scan(dir: &Path) -> Result<Self, ContextError> {
        let root = fs::canonicalize(dir)?;
        let mut entries = Vec::new();
        walk(&root, Path::new(""), &mut entries)?;
        let ignore = match fs::read_to_string(root.join(".dockerignore")) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(error.into()),
        };
        Ok(Self { root: Some(root), entries, ignore })
    }
}

fn walk(root: &Path, below: &Path, entries: &mut Vec<ContextEntry>) -> Result<(), ContextError> {
    let mut names = Vec::new();
    for entry in fs::read_dir(root.join(below))? {
        names.push(entry?.file_name());
    }
    names.sort();
    for name in names {
        let path = below.join(&name);
        let full = root.join(&path);
        if below.as_os_str().is_empty() {
            let text = name.to_string_lossy();
            if text == CONTEXT_DIR {
                return Err(ContextError::Reserved(full));
            }
            if OURS.contains(&text.as_ref()) || text.starts_with(SECRETS) {
                continue;
            }
        }
        let metadata = fs::symlink_metadata(&full)?;
        if metadata.is_dir() {
            entries.push(ContextEntry { path: path.clone(), kind: EntryKind::Dir });
            walk(root, &path, entries)?;
        } else if metadata.is_symlink() {
            let target = fs::read_link(&full)?;
            check_link(root, &path, &target)?;
            entries.push(ContextEntry { path, kind: EntryKind::Link { target } });
        } else if metadata.is_file() {
            let mode = metadata.permissions().mode() & 0o777;
            let hash = copy_hashing(&mut open_plain(&full)?, &mut sink())?;
            entries.push(ContextEntry { path, kind: EntryKind::File { mode, hash } });
        } else {
            return Err(ContextError::Special(full));
        }
    }
    Ok(())
}

/// Opens a file that must not have become a link since it was looked at.
pub(super) fn open_plain(path: &Path) -> Result<fs::File, std::io::Error> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let mut options = fs::OpenOptions::new();
    options.read(true);
    options.options_mut().custom_flags(flags);
    options.open(path)
}

/// Copies to the end; the answer is the SHA-256 of what went through.
pub(super) fn copy_hashing(from: &mut impl Read, to: &mut impl Write) -> Result<[u8; 32], std::io::Error> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let count = from.read(&mut buffer)?;
        if count == 0 {
            return Ok(hash.finalize().into());
        }
        hash.update(&buffer[..count]);
        to.write_all(&buffer[..count])?;
    }
}

/// A link may neither be written to lead out, nor lead out by way of other links.
fn check_link(root: &Path, link: &Path, target: &Path) -> Result<(), ContextError> {
    let escape = || ContextError::Escape { path: root.join(link), target: target.into() };
    let mut depth = link.components().count() - 1;
    for part in target.components() {
        match part {
            Component::CurDir => {}
            Component::Normal(_) => depth += 1,
            Component::ParentDir => depth = depth.checked_sub(1).ok_or_else(escape)?,
            Component::RootDir | Component::Prefix(_) => return Err(escape()),
        }
    }
    let full: PathBuf = root.join(link);
    match fs::canonicalize(&full) {
        Ok(real) if !real.starts_with(root) => Err(escape()),
        // A dangling link is copied as it is: it may fit the image.
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    fn project() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, content) in [
            ("Dockerfile", "FROM x"),
            ("config.yaml", "a: b"),
            ("env.secret.yaml", "k: v"),
            ("env", "A=1"),
            ("setup.sh", "echo"),
            ("files/env", "kept"),
        ] {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        dir
    }

    fn paths(context: &ProjectContext) -> Vec<&str> {
        context.entries.iter().map(|entry| entry.path.to_str().unwrap()).collect()
    }

    #[test]
    fn our_own_files_and_secrets_stay_out() {
        let dir = project();
        symlink("../setup.sh", dir.path().join("files/link")).unwrap();
        let context = ProjectContext::scan(dir.path()).unwrap();
        assert_eq!(paths(&context), ["files", "files/env", "files/link", "setup.sh"]);
    }

    #[test]
    fn links_that_lead_out_are_refused_and_others_are_not() {
        for (link, target, good) in [
            ("a", "/etc/passwd", false),
            ("a", "../secret", false),
            ("files/a", "../../secret", false),
            ("files/a", "env/../../../x", false),
            ("files/a", "../setup.sh", true),
            ("files/a", "missing", true),
        ] {
            let dir = project();
            symlink(target, dir.path().join(link)).unwrap();
            let result = ProjectContext::scan(dir.path());
            assert_eq!(result.is_ok(), good, "{link} -> {target}: {result:?}");
            if !good {
                assert!(matches!(result, Err(ContextError::Escape { .. })), "{result:?}");
            }
        }
    }

    #[test]
    fn a_link_that_leads_out_by_way_of_another_is_refused() {
        let outer = tempfile::tempdir().unwrap();
        fs::write(outer.path().join("secret"), "x").unwrap();
        let dir = outer.path().join("project");
        fs::create_dir_all(dir.join("p")).unwrap();
        symlink("..", dir.join("p/up")).unwrap();
        symlink("up/../secret", dir.join("p/out")).unwrap();
        assert!(matches!(ProjectContext::scan(&dir), Err(ContextError::Escape { .. })));
        fs::remove_file(dir.join("p/out")).unwrap();
        assert_eq!(paths(&ProjectContext::scan(&dir).unwrap()), ["p", "p/up"]);
    }

    #[test]
    fn sockets_and_our_own_folder_are_refused() {
        let dir = project();
        let _socket = UnixListener::bind(dir.path().join("s")).unwrap();
        assert!(matches!(ProjectContext::scan(dir.path()), Err(ContextError::Special(_))));
        let dir = project();
        fs::create_dir(dir.path().join(CONTEXT_DIR)).unwrap();
        assert!(matches!(ProjectContext::scan(dir.path()), Err(ContextError::Reserved(_))));
    }

    #[test]
    fn content_and_mode_change_the_fingerprint() {
        let dir = project();
        let before = ProjectContext::scan(dir.path()).unwrap();
        assert_eq!(before, ProjectContext::scan(dir.path()).unwrap());
        fs::set_permissions(dir.path().join("setup.sh"), std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_ne!(before, ProjectContext::scan(dir.path()).unwrap());
    }
}

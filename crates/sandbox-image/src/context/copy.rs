use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use fs_err as fs;

use super::scan::{copy_hashing, open_plain};
use super::{ContextError, EntryKind, ProjectContext};
use crate::ContextFile;
use crate::compose::CONTEXT_DIR;

/// Fills the empty folder `to` with the project's files and ours.
pub(crate) fn write_context(
    context: &ProjectContext,
    files: &[ContextFile],
    to: &Path,
) -> Result<(), ContextError> {
    if let Some(root) = &context.root {
        for entry in &context.entries {
            let target = to.join(&entry.path);
            match &entry.kind {
                EntryKind::Dir => make_dir(&target)?,
                EntryKind::Link { target: link } => symlink(link, &target)?,
                EntryKind::File { mode, hash } => {
                    let mut source = open_plain(&root.join(&entry.path))?;
                    if !source.metadata()?.is_file() {
                        return Err(ContextError::Special(root.join(&entry.path)));
                    }
                    if copy_hashing(&mut source, &mut fs::File::create(&target)?)? != *hash {
                        return Err(ContextError::Changed(root.join(&entry.path)));
                    }
                    fs::set_permissions(&target, std::fs::Permissions::from_mode(*mode))?;
                }
            }
        }
    }
    for file in files {
        let target = to.join(&file.path);
        if let Some(dir) = target.parent() {
            make_dir(dir)?;
        }
        fs::write(&target, &file.content)?;
        fs::set_permissions(&target, std::fs::Permissions::from_mode(0o644))?;
    }
    if let Some(ignore) = &context.ignore {
        // The engine applies the project's patterns; ours come last, so that they win.
        let text = format!("{ignore}\n!{CONTEXT_DIR}\n!{CONTEXT_DIR}/**\n");
        fs::write(to.join(".dockerignore"), text)?;
    }
    Ok(())
}

fn make_dir(dir: &Path) -> Result<(), ContextError> {
    fs::create_dir_all(dir)?;
    fs::set_permissions(dir, std::fs::Permissions::from_mode(0o755))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_links_and_modes_arrive_and_the_project_stays_as_it_was() {
        let project = tempfile::tempdir().unwrap();
        fs::create_dir(project.path().join("bin")).unwrap();
        fs::write(project.path().join("bin/tool"), "x").unwrap();
        fs::set_permissions(project.path().join("bin/tool"), std::fs::Permissions::from_mode(0o750)).unwrap();
        symlink("bin/tool", project.path().join("tool")).unwrap();
        fs::write(project.path().join(".dockerignore"), "*\n").unwrap();
        let context = ProjectContext::scan(project.path()).unwrap();
        let to = tempfile::tempdir().unwrap();
        let ours = ContextFile { path: format!("{CONTEXT_DIR}/ca/x.crt"), content: b"pem".to_vec() };
        write_context(&context, &[ours], to.path()).unwrap();
        assert_eq!(fs::read_to_string(to.path().join("tool")).unwrap(), "x");
        let mode = fs::metadata(to.path().join("bin/tool")).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o750);
        assert_eq!(fs::read_to_string(to.path().join(CONTEXT_DIR).join("ca/x.crt")).unwrap(), "pem");
        assert!(fs::read_to_string(to.path().join(".dockerignore")).unwrap().ends_with("build/**\n"));
        assert_eq!(context, ProjectContext::scan(project.path()).unwrap());
    }
}

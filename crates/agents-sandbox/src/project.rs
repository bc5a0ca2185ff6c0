//! Which project and which sandbox a command means.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use sandbox_config::mount_target;
use sandbox_lifecycle::{Context, Project, Repository, Target};
use sandbox_model::{ExtraMount, SandboxName};

use crate::error::CommandError;

/// The checkout around the folder where the command was typed.
pub fn discover() -> Result<Project, CommandError> {
    let cwd = std::env::current_dir().map_err(|error| gone(&error))?;
    let checkout = sandbox_checkout::discover(&cwd)?;
    let inside = checkout.common_dir.filter(|common| common.starts_with(&checkout.root));
    let repository = match (checkout.outside, inside) {
        (Some(outside), _) => Some(Repository { path: outside.common, relative: outside.relative }),
        (None, Some(path)) => Some(Repository { path, relative: None }),
        (None, None) => None,
    };
    Ok(Project {
        repository,
        checkout: checkout.checkout_slug,
        repo: Some(checkout.repo_slug),
        root: checkout.root,
        subdir: checkout.subdir,
        config_dir: checkout.project_dir,
    })
}

/// The repository of a checkout that is in another folder, where the sandbox does not see it.
pub fn repository_unseen(project: &Project, mounts: &[ExtraMount]) -> Option<PathBuf> {
    let common = sandbox_checkout::discover(&project.root).ok()?.common_dir?;
    (!common.starts_with(&project.root) && !is_mounted(&common, mounts)).then_some(common)
}

/// What brings the repository of a linked worktree elsewhere, or of a submodule, to the same place in the
/// sandbox. A mount that the settings name for it counts instead: one that is only read, say.
pub fn repository_mount(project: &Project, mounts: &[ExtraMount]) -> Option<ExtraMount> {
    let path = &project.repository.as_ref()?.path;
    if path.starts_with(&project.root) || is_mounted(path, mounts) {
        return None;
    }
    let target = path.to_str().filter(|path| mount_target(path).as_deref() == Ok(path))?;
    let taken = mounts.iter().any(|mount| mount.target == target);
    (!taken).then(|| ExtraMount { target: target.into(), source: path.clone(), readonly: false })
}

fn is_mounted(path: &Path, mounts: &[ExtraMount]) -> bool {
    mounts.iter().any(|mount| {
        path.strip_prefix(&mount.source).is_ok_and(|below| Path::new(&mount.target).join(below) == path)
    })
}

fn gone(error: &std::io::Error) -> CommandError {
    if error.kind() == ErrorKind::NotFound {
        return CommandError::new("the current folder was removed")
            .hint("`cd` to the project's folder; where it was made again, `cd \"$PWD\"` is enough");
    }
    CommandError::new(format!("the current folder cannot be told: {error}"))
}

/// The project's folder of settings is a folder of its own, or is not there. A link would let whoever works
/// in the sandbox choose any folder of this computer.
pub fn check_settings_folder(dir: &Path) -> Result<(), CommandError> {
    let problem = match fs_err::symlink_metadata(dir) {
        Err(_) => return Ok(()),
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(found) if found.is_symlink() => "a link",
        Ok(_) => "a file",
    };
    Err(CommandError::new(format!("{} is {problem}, and must be a folder", dir.display()))
        .hint("the project's settings are the file `config.yaml` in it, and its Dockerfile another"))
}

/// The checkout and agent of a sandbox that was made earlier, by its labels; by its name where the record
/// has none.
pub fn target_of(context: &Context<'_>, name: &SandboxName) -> Result<Target, CommandError> {
    let info = context.runtime.inspect(name)?;
    let labelled = info.as_ref().and_then(|info| Target::of(&info.spec));
    labelled.or_else(|| Target::from_name(name)).ok_or_else(|| {
        CommandError::new(format!("`{name}` is not the name of a project's sandbox"))
            .hint("`agents-sandbox list` shows the sandboxes there are")
    })
}

/// Words for messages, in quotes where a shell would need them.
pub fn shown(words: &[OsString]) -> String {
    let quoted = words.iter().map(|word| {
        let word = word.to_string_lossy();
        let plain = !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || "-_./:=@%+,".contains(c));
        if plain { word.into_owned() } else { format!("{word:?}") }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

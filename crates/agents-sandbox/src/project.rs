//! Which project and which sandbox a command means.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use sandbox_lifecycle::{Context, Project, Target, UpRequest};
use sandbox_model::SandboxName;

use crate::error::CommandError;

/// The checkout around the folder where the command was typed.
pub fn discover() -> Result<Project, CommandError> {
    let cwd = std::env::current_dir().map_err(|error| gone(&error))?;
    let checkout = sandbox_checkout::discover(&cwd)?;
    Ok(Project {
        checkout: checkout.checkout_slug,
        repo: Some(checkout.repo_slug),
        root: checkout.root,
        subdir: checkout.subdir,
        config_dir: checkout.project_dir,
    })
}

/// The repository of a linked worktree, where the sandbox does not see it: outside the checkout and of no
/// mount.
pub fn repository_outside(request: &UpRequest) -> Option<PathBuf> {
    let common = sandbox_checkout::discover(&request.project.root).ok()?.common_dir?;
    let mounted = request.settings.mounts.iter().any(|mount| {
        common.strip_prefix(&mount.source).is_ok_and(|below| Path::new(&mount.target).join(below) == common)
    });
    (!common.starts_with(&request.project.root) && !mounted).then_some(common)
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

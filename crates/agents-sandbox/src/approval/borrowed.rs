//! What a checkout's own `.git` brings in of the user's: settings for one remote, a repository in another folder.
//!
//! Whoever works in the sandbox writes `.git`. With another remote in it the next run would have the user's settings
//! for that one; with another pointer, where both ends of it can be had, another repository. So what a folder has got
//! once is its own, and what comes later is asked for, as is what comes with a folder that was made in a sandbox.

use std::path::{Path, PathBuf};

use sandbox_lifecycle::Project;
use sandbox_state::{Layout, StateError, writable_folders};

use super::marker::{Marker, outside};

/// What is to be approved.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Borrowed {
    /// The user's folder of settings for the remote.
    pub settings: Option<PathBuf>,
    /// The git directory in another folder.
    pub repository: Option<PathBuf>,
}

pub fn borrowed(layout: &Layout, project: &Project) -> Result<Borrowed, StateError> {
    let settings = project.repo.as_ref().map(|repo| layout.repo_config(repo)).filter(|dir| dir.exists());
    let repository = outside(project).map(Path::to_path_buf);
    if settings.is_none() && repository.is_none() {
        return Ok(Borrowed::default());
    }
    if let Some(known) = Marker::read(layout, &project.root) {
        let now = Marker::of(project, Vec::new());
        return Ok(Borrowed {
            settings: settings.filter(|_| known.remote.is_some() && known.remote != now.remote),
            repository: repository
                .filter(|_| known.repository.is_some() && known.repository != now.repository),
        });
    }
    let made_in = writable_folders(layout)?.into_iter().filter(|folder| project.root.starts_with(folder));
    let made_in: Vec<PathBuf> = made_in.collect();
    Ok(Borrowed {
        settings: settings.filter(|_| !made_in.is_empty()),
        // A submodule of what the sandbox had has nothing new.
        repository: repository
            .filter(|path| !made_in.is_empty() && !made_in.iter().any(|folder| path.starts_with(folder))),
    })
}

#[cfg(test)]
mod tests {
    use sandbox_lifecycle::Repository;
    use sandbox_model::{CheckoutSlug, RepoSlug};
    use sandbox_state::{Environment, remember_writable};

    use super::*;

    #[test]
    fn what_comes_later_or_with_a_folder_of_a_sandbox_is_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        let home = Some(dir.path().to_path_buf());
        let layout = Layout::new(&Environment { home, ..Environment::default() }).unwrap();
        let (mine, corp) = (RepoSlug::new("shop", b"mine"), RepoSlug::new("app", b"corp"));
        let settings = layout.repo_config(&corp);
        fs_err::create_dir_all(&settings).unwrap();
        let project = |repo: &RepoSlug, repository: &str| Project {
            checkout: CheckoutSlug::new("shop", Path::new("/d/shop")),
            repo: Some(repo.clone()),
            root: "/d/shop".into(),
            subdir: PathBuf::new(),
            config_dir: "/d/shop/.agents-sandbox".into(),
            repository: Some(Repository { path: repository.into(), relative: None }),
        };
        let asked = |project: &Project| {
            let Borrowed { settings, repository } = borrowed(&layout, project).unwrap();
            (settings.is_some(), repository.is_some())
        };
        let (plain, all) = (project(&mine, "/d/shop/.git"), project(&corp, "/d/x/.git"));
        // Whoever brings a folder brings what belongs to it, unless that was a sandbox.
        assert_eq!(asked(&all), (false, false));
        remember_writable(&layout, Path::new("/d/shop")).unwrap();
        assert_eq!((asked(&plain), asked(&all)), ((false, false), (true, true)));

        let remember =
            |project: &Project| Marker::of(project, Vec::new()).write(&layout, &project.root).unwrap();
        remember(&plain);
        assert_eq!((asked(&plain), asked(&all)), ((false, false), (true, true)));
        // A remote that the user has no settings for brings nothing.
        assert_eq!(asked(&project(&RepoSlug::new("b", b"b"), "/d/shop/.git")), (false, false));
        remember(&all);
        assert_eq!((asked(&plain), asked(&all)), ((false, false), (false, false)));
        assert_eq!(asked(&project(&corp, "/d/y/.git")), (false, true));
        // A record of an earlier version does not know.
        fs_err::write(layout.checkout_root(Path::new("/d/shop")), "/d/shop\0shop-1").unwrap();
        assert_eq!(asked(&all), (false, false));
    }
}

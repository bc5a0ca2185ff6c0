//! Which folders and files of this computer a sandbox may get, where it can write others already.
//!
//! Whoever works in the sandbox can put a link in the place of whatever it can write. A source that leads through
//! there would be any folder of this computer, at the next start.

use std::path::{Path, PathBuf};

use sandbox_model::ExtraMount;

use crate::error::CommandError;

/// A mount that the settings ask for, resolved.
#[derive(Debug, Clone)]
pub struct Asked {
    pub mount: ExtraMount,
    /// The source as it was written.
    pub written: PathBuf,
    /// Where the links stand through which the source leads.
    pub links: Vec<PathBuf>,
    /// Which file asks for it, for people.
    pub origin: String,
}

/// Refuses a source that leads through a link which the sandbox can make, and one that is to be read only where another
/// mount of the settings lets the sandbox write the same: its root takes away what lies above. In the project itself
/// that is no contradiction of the settings: see [`writable_anyway`].
///
/// `root` is the project's folder, `repository` what is mounted for git beside it, `written` the folders that any
/// sandbox got to write, now or earlier. All paths are resolved.
pub fn check(
    asked: &[Asked],
    root: &Path,
    repository: Option<&ExtraMount>,
    written: &[PathBuf],
) -> Result<(), CommandError> {
    let own = [(root, "the project's folder".to_string())];
    let own = own.into_iter().chain(repository.map(|it| (&*it.source, "the project's repository".into())));
    let own: Vec<(&Path, String)> = own.collect();
    let mounts = asked.iter().map(|asked| &asked.mount).filter(|mount| !mount.readonly);
    let mounts: Vec<(&Path, String)> =
        mounts.map(|mount| (&*mount.source, format!("mounted at {}", mount.target))).collect();
    let elsewhere = "which a sandbox writes, or wrote".to_string();
    let elsewhere: Vec<(&Path, String)> =
        written.iter().map(|folder| (folder.as_path(), elsewhere.clone())).collect();
    for asked in asked {
        let (written, target) = (asked.written.display(), &asked.mount.target);
        for link in &asked.links {
            // What stands in the place of such a folder itself was put there from outside.
            let made = |(folder, _): &&(&Path, String)| link.starts_with(folder) && link != folder;
            let Some((folder, what)) = own.iter().chain(&mounts).chain(&elsewhere).find(made) else {
                continue;
            };
            return Err(CommandError::new(format!(
                "{written}, which is to be mounted at {target}, leads through the link {}, and whoever works in a \
                 sandbox can make links there: it is in {}, {what}",
                link.display(),
                folder.display()
            ))
            .hint("look at where the link leads, then put a folder in its place, or write a path without that link")
            .hint(format!("it is asked for by {}", asked.origin)));
        }
        if asked.mount.readonly
            && let Some((folder, what)) =
                mounts.iter().find(|(folder, _)| asked.mount.source.starts_with(folder))
        {
            let source = asked.mount.source.display();
            let place = if *folder == asked.mount.source { "is" } else { "is in" };
            return Err(CommandError::new(format!(
                "{source} cannot be mounted read-only at {target}: it {place} {}, {what}, which the sandbox can \
                 write",
                folder.display()
            ))
            .hint("leave `readonly` away, make the other mount read-only too, or mount a copy from elsewhere")
            .hint(format!("it is asked for by {}", asked.origin)));
        }
    }
    Ok(())
}

/// Mounts that are to be read only, of what is in the project or its repository, and in which of these: the sandbox
/// writes that at its other place.
pub fn writable_anyway<'a>(
    mounts: &'a [ExtraMount],
    root: &'a Path,
) -> impl Iterator<Item = (&'a ExtraMount, &'a Path)> {
    let folders = move || {
        let written = mounts.iter().filter(|mount| !mount.readonly).map(|mount| mount.source.as_path());
        std::iter::once(root).chain(written)
    };
    mounts.iter().filter(|mount| mount.readonly).filter_map(move |mount| {
        let folder = folders().find(|folder| mount.source.starts_with(folder))?;
        Some((mount, folder))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(target: &str, source: &str, readonly: bool, links: &[&str]) -> Asked {
        Asked {
            mount: ExtraMount { target: target.into(), source: source.into(), readonly },
            written: "/home/me/written".into(),
            links: links.iter().map(PathBuf::from).collect(),
            origin: "the test".into(),
        }
    }

    fn refusal(asked: &[Asked]) -> Option<String> {
        let git = ExtraMount { target: "/r/.git".into(), source: "/r/.git".into(), readonly: false };
        let written = ["/home/me/lib", "/home/me/moved"].map(PathBuf::from);
        check(asked, Path::new("/home/me/shop"), Some(&git), &written).err().map(|error| error.message)
    }

    #[test]
    fn links_that_the_sandbox_can_make_are_refused_and_the_users_own_are_not() {
        let wide = asked("/a", "/home/me/x", false, &[]);
        for (link, word) in [
            ("/home/me/shop/link", Some("/home/me/shop, the project's folder")),
            ("/home/me/x/sub", Some("/home/me/x, mounted at /a")),
            ("/r/.git/hooks", Some("/r/.git, the project's repository")),
            ("/home/me/lib/out", Some("/home/me/lib, which a sandbox writes, or wrote")),
            // Only from outside can a folder that was a sandbox's become a link.
            ("/home/me/moved", None),
            ("/home/me/library/out", None),
            ("/home/me/shop2", None),
            ("/home/me/xy/sub", None),
        ] {
            let said = refusal(&[wide.clone(), asked("/b", "/home/me/.ssh", false, &["/home/me/l", link])]);
            match word {
                None => assert_eq!(said, None, "{link}"),
                Some(word) => {
                    let said = said.unwrap_or_default();
                    assert!(
                        said.contains(word) && said.contains(link) && said.contains("/b"),
                        "{link}: {said}"
                    );
                }
            }
        }
        // What is only read makes no links, and the order of the mounts is nothing.
        let read = asked("/a", "/home/me/x", true, &[]);
        let through = asked("/b", "/home/me/.ssh", true, &["/home/me/x/sub"]);
        assert_eq!(refusal(&[read, through.clone()]), None);
        assert!(refusal(&[through, wide]).is_some());
    }

    #[test]
    fn what_is_only_read_and_in_the_repository_is_told() {
        let mount =
            |source: &str, readonly| ExtraMount { target: source.into(), source: source.into(), readonly };
        let told = |mounts: &[ExtraMount]| {
            let root = Path::new("/home/me/shop");
            writable_anyway(mounts, root).map(|(_, folder)| folder.to_path_buf()).collect::<Vec<_>>()
        };
        let git = mount("/r/.git", false);
        assert_eq!(told(&[git.clone(), mount("/r/.git/hooks", true)]), [Path::new("/r/.git")]);
        assert_eq!(told(&[mount("/home/me/shop/docs", true)]), [Path::new("/home/me/shop")]);
        assert_eq!(told(&[git.clone(), mount("/r", true), mount("/r/.github", true)]), Vec::<PathBuf>::new());
        assert_eq!(told(&[mount("/r/.git", true), mount("/r/.git/hooks", true)]), Vec::<PathBuf>::new());
    }

    #[test]
    fn what_is_only_read_is_in_nothing_that_is_written() {
        let wide = asked("/src", "/home/me/src", false, &[]);
        for (source, word) in [
            ("/home/me/src/vendor", Some("is in /home/me/src, mounted at /src")),
            ("/home/me/src", Some("is /home/me/src, mounted at /src")),
            // A mount for all projects may be of this one: it is told, and no reason to refuse.
            ("/home/me/shop/docs", None),
            ("/home/me/shop", None),
            ("/r/.git/hooks", None),
            ("/home/me", None),
            ("/r", None),
            ("/home/me/src2", None),
        ] {
            let said = refusal(&[wide.clone(), asked("/b", source, true, &[])]);
            assert_eq!(said.is_some(), word.is_some(), "{source}: {said:?}");
            assert!(word.is_none_or(|word| said.unwrap_or_default().contains(word)), "{source}");
            assert_eq!(refusal(&[wide.clone(), asked("/b", source, false, &[])]), None, "{source}");
        }
        let whole = asked("/src", "/home/me/src", true, &[]);
        assert_eq!(refusal(&[whole, asked("/b", "/home/me/src/vendor", true, &[])]), None);
    }
}

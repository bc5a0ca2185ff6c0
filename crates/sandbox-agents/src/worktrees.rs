//! Git worktrees that an agent's server makes in the sandbox, for sessions that shall not touch the checkout.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::{Server, ServerError, WorktreeApi};

const EXPERIMENTAL: &str = "/experimental/worktree";

/// One that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worktree {
    /// The last part of its folder.
    pub name: String,
    /// Absolute, in the guest.
    pub directory: String,
}

impl Worktree {
    /// By its folder in the guest.
    pub fn new(directory: String) -> Self {
        let name = directory.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_string();
        Self { name, directory }
    }
}

/// The worktrees of the project at `main` (a guest folder).
pub fn worktrees(server: &Server<'_>, main: &str) -> Result<Vec<Worktree>, ServerError> {
    let path = path(server, main)?;
    let listed: Vec<Listed> = server.json(&path, Some(main))?;
    Ok(listed.into_iter().map(|listed| Worktree::new(listed.directory())).collect())
}

/// Makes one, on a new branch `opencode/NAME` at the checkout's `HEAD`, or at the commit `base` (its whole
/// hash). The server answers before the files are there. `home` is the guest's, below which it is.
pub fn create_worktree(
    server: &Server<'_>,
    main: &str,
    home: &str,
    name: &str,
    base: Option<&str>,
) -> Result<Worktree, ServerError> {
    let path = path(server, main)?;
    let mut body = json!({ "name": name });
    match server.profile().worktrees {
        WorktreeApi::Experimental => {
            if let Some(base) = base {
                body["startCommand"] = format!("git reset --hard {base}").into();
            }
        }
        WorktreeApi::Project => {
            let project = path.rsplit('/').next().unwrap_or_default();
            body["strategy"] = "git_worktree".into();
            body["directory"] = format!("{home}/.local/share/opencode/worktree/{project}/{name}").into();
            if let Some(base) = base {
                body["from"] = base.into();
            }
        }
    }
    let made: Listed = server.change("POST", &path, main, &body)?;
    Ok(Worktree::new(made.directory()))
}

/// Removes one with its branch, whatever is in it.
pub fn remove_worktree(server: &Server<'_>, main: &str, directory: &str) -> Result<(), ServerError> {
    let path = path(server, main)?;
    server.change::<Value>("DELETE", &path, main, &json!({ "directory": directory }))?;
    Ok(())
}

fn path(server: &Server<'_>, main: &str) -> Result<String, ServerError> {
    match server.profile().worktrees {
        WorktreeApi::Experimental => Ok(EXPERIMENTAL.into()),
        WorktreeApi::Project => {
            let path = "/api/project/current";
            let current: Current = server.json(path, Some(main))?;
            // It becomes a part of a path, and of a folder's name.
            if current.id.is_empty()
                || !current.id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
            {
                let problem = format!("`{}` is not a project's id", current.id.escape_default());
                return Err(ServerError::Malformed { path: path.into(), problem });
            }
            Ok(format!("/api/worktree/{}", current.id))
        }
    }
}

#[derive(Debug, Deserialize)]
struct Current {
    id: String,
}

/// Versions of the server differ in this.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Listed {
    Folder(String),
    Entry { directory: String },
}

impl Listed {
    fn directory(self) -> String {
        match self {
            Self::Folder(directory) | Self::Entry { directory } => directory,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_a_list_are_read() {
        let listed: Vec<Listed> =
            serde_json::from_str(r#"["/h/wt/abc/fix-it",{"name":"x","directory":"/h/wt/abc/other"}]"#)
                .unwrap();
        let found: Vec<Worktree> =
            listed.into_iter().map(|listed| Worktree::new(listed.directory())).collect();
        assert_eq!(found.iter().map(|w| w.name.as_str()).collect::<Vec<_>>(), ["fix-it", "other"]);
    }
}

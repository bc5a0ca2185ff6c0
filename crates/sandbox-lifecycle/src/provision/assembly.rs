//! What goes into the guest's home, from where, and why.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sandbox_agents::{ConfigFiles, OwnFiles, profile};
use sandbox_model::{AgentName, ExtraMount};
use sandbox_state::Layout;
use serde_json::Value;

use super::host_files::{HostFile, Tree, read_tree};
use super::merge::merge;
use super::walls::walls;
use crate::{LifecycleError, Project, ProvisionSettings, Result};

/// Which of the places a file comes from. A later one wins over an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// The user's instructions, prompts, commands and skills of this agent on the host.
    Habits,
    /// The user's other configuration of this agent on the host (`provision-host-config`).
    HostConfig,
    /// The user's folder for this agent in our configuration.
    User,
    /// Likewise, for all clones of the project's remote.
    Repository,
    /// The project's folder for this agent.
    Project,
    /// A mapping of `home`.
    Home,
}

impl Layer {
    /// The word for it in tables.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Habits => "habits",
            Self::HostConfig => "host configuration",
            Self::User => "user",
            Self::Repository => "repository",
            Self::Project => "project",
            Self::Home => "home",
        }
    }
}

/// What becomes of one file of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// Part of the merged document.
    Merged,
    /// As it is, under the name of its target.
    Copied,
    /// This file goes to the same place, and wins.
    Replaced {
        /// The file of the host that goes there.
        by: PathBuf,
    },
    /// Not copied, and why.
    Left(&'static str),
}

/// One file of the host and where it goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The one that it is from.
    pub layer: Layer,
    /// On the host: absolute.
    pub source: PathBuf,
    /// In the guest's home.
    pub target: String,
    /// What becomes of it.
    pub fate: Fate,
}

/// A mapping that is run after a boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    /// In the guest's home.
    pub target: String,
    /// As root, not as `dev`.
    pub root: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub mode: u32,
    pub content: Vec<u8>,
}

/// Everything that goes into the home of one agent's sandbox.
#[derive(Debug, Default)]
pub struct Assembly {
    /// Every file that was looked at, those that are not copied too.
    pub items: Vec<Item>,
    /// What the snippets make together; `None` without snippets.
    pub document: Option<Value>,
    /// What could not be taken, one sentence each.
    pub warnings: Vec<String>,
    /// In the order of their targets.
    pub hooks: Vec<Hook>,
    pub(super) files: BTreeMap<String, Entry>,
    /// Folders whose permission bits are kept.
    pub(super) folders: BTreeMap<String, u32>,
    /// Files in the guest that would hide the merged document.
    pub(super) hidden: Vec<String>,
}

/// Reads all that there is for `agent`. A snippet that is not JSON5 is an error with its place; so is a
/// folder of ours that cannot be read, or holds too much. What the user has on the host is taken as far as
/// it can be.
///
/// Links of the user's are followed; none where this sandbox, with the checkout and these `mounts`, or another one
/// can write, or once could.
pub fn assemble(
    layout: &Layout,
    project: &Project,
    mounts: &[ExtraMount],
    agent: AgentName,
    settings: &ProvisionSettings,
) -> Result<Assembly> {
    let walls = walls(layout, project, mounts)?;
    let profile = profile(agent)?;
    let mut assembly = Assembly::default();
    assembly.take_own_files(&profile.own, &walls, settings);
    let mut folders = vec![(Layer::User, layout.config.clone())];
    folders.extend(project.repo.as_ref().map(|repo| (Layer::Repository, layout.repo_config(repo))));
    folders.push((Layer::Project, project.config_dir.clone()));
    for (layer, folder) in folders {
        let tree = read_tree(&folder.join(profile.config.host_dir), &walls)?;
        assembly.take_folder(&profile.config, layer, tree)?;
    }
    assembly.finish_document(&profile.config);
    assembly.take_home(&profile.config, &walls, settings)?;
    Ok(assembly)
}

impl Assembly {
    /// Puts a file to its place, over whatever was there.
    fn put(&mut self, layer: Layer, target: String, file: HostFile) {
        if self.files.contains_key(&target) {
            self.replace(&target, &file.source);
        }
        self.items.push(Item { layer, source: file.source, target: target.clone(), fate: Fate::Copied });
        self.files.insert(target, Entry { mode: file.mode, content: file.content });
    }

    fn replace(&mut self, target: &str, by: &Path) {
        for item in &mut self.items {
            if item.target == target && matches!(item.fate, Fate::Copied | Fate::Merged) {
                item.fate = Fate::Replaced { by: by.into() };
            }
        }
    }

    fn leave(&mut self, layer: Layer, source: PathBuf, target: String, why: &'static str) {
        self.items.push(Item { layer, source, target, fate: Fate::Left(why) });
    }

    fn warn(&mut self, skipped: Vec<String>) {
        self.warnings.extend(skipped);
    }

    fn take_own_files(&mut self, own: &OwnFiles, walls: &[PathBuf], settings: &ProvisionSettings) {
        let Some(home) = &settings.host_home else { return };
        for (layer, paths, wanted) in [
            (Layer::HostConfig, own.config, settings.host_config),
            (Layer::Habits, own.habits, settings.habits),
        ] {
            for path in paths {
                let tree = match read_tree(&home.join(path), walls) {
                    Ok(tree) => tree,
                    // Nobody asked for these in particular.
                    Err(error) => {
                        self.warnings.push(error.to_string());
                        continue;
                    }
                };
                if wanted {
                    self.warn(tree.skipped);
                }
                for file in tree.files {
                    let Some(target) = join(path, &file.path) else { continue };
                    if layer == Layer::HostConfig && within(own.habits, &target) {
                        continue;
                    }
                    if own.is_left_out(&target) {
                        self.leave(layer, file.source, target, "may hold a secret, or is no configuration");
                    } else if wanted {
                        self.put(layer, target, file);
                    } else if layer == Layer::HostConfig {
                        self.leave(layer, file.source, target, "provision-host-config is false");
                    } else {
                        self.leave(layer, file.source, target, "provision-habits is false");
                    }
                }
            }
        }
    }

    fn take_folder(&mut self, config: &ConfigFiles, layer: Layer, tree: Tree) -> Result<()> {
        self.warn(tree.skipped);
        for file in tree.files {
            let path = file.path.to_str().unwrap_or_default();
            if config.is_snippet(path) {
                let snippet = parse(&file)?;
                match &mut self.document {
                    Some(document) => merge(document, snippet),
                    None => self.document = Some(snippet),
                }
                let target = config.merged.to_string();
                self.items.push(Item { layer, source: file.source, target, fate: Fate::Merged });
            } else if config.family.contains(&path) {
                let target = format!("{}/{path}", config.guest_dir);
                self.warnings.push(format!(
                    "{} would hide what the snippets make: only {}*.json, .jsonc and .json5 are merged",
                    file.source.display(),
                    config.snippet_prefix
                ));
                self.leave(layer, file.source, target, "would hide the merged document");
            } else if let Some(target) = join(config.guest_dir, &file.path) {
                self.put(layer, target, file);
            } else {
                self.warnings.push(format!("{} has a name that is not UTF-8", file.source.display()));
            }
        }
        Ok(())
    }

    /// The merged document takes the place of every file of its kind.
    fn finish_document(&mut self, config: &ConfigFiles) {
        let Some(document) = &self.document else { return };
        let content = format!("{document:#}\n").into_bytes();
        let family: Vec<String> =
            config.family.iter().map(|name| format!("{}/{name}", config.guest_dir)).collect();
        for item in &mut self.items {
            if item.fate == Fate::Copied && family.contains(&item.target) {
                item.fate = Fate::Left("not merged: there are snippets");
                self.files.remove(&item.target);
            }
        }
        self.files.insert(config.merged.into(), Entry { mode: 0o600, content });
        self.hidden = family.into_iter().filter(|path| path != config.merged).collect();
    }

    fn take_home(
        &mut self,
        config: &ConfigFiles,
        walls: &[PathBuf],
        settings: &ProvisionSettings,
    ) -> Result<()> {
        for (target, mapping) in &settings.home {
            if self.document.is_some() && target == config.merged {
                let problem = format!(
                    "`home` maps it to ~/{target}, which the snippets of the agent make; write a snippet instead"
                );
                return Err(LifecycleError::Snippet { path: mapping.source.clone(), problem });
            }
            let tree = read_tree(&mapping.source, walls)?;
            if tree.is_missing() {
                let source = mapping.source.display();
                self.warnings.push(format!("{source} does not exist; `home` maps it to ~/{target}"));
            }
            self.warn(tree.skipped);
            for (folder, mode) in tree.folders {
                if let Some(path) = join(target, &folder) {
                    self.folders.insert(path, mode);
                }
            }
            let is_file = tree.files.first().is_some_and(|file| file.path.as_os_str().is_empty());
            for file in tree.files {
                if let Some(path) = join(target, &file.path) {
                    self.put(Layer::Home, path, file);
                }
            }
            if mapping.startup && is_file {
                self.hooks.push(Hook { target: target.clone(), root: mapping.root });
            } else if mapping.startup {
                self.warnings.push(format!("{} is no file, so it is not run", mapping.source.display()));
            }
        }
        Ok(())
    }
}

fn within(folders: &[&str], path: &str) -> bool {
    folders
        .iter()
        .any(|folder| path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

/// `None` for a name that is not UTF-8.
fn join(folder: &str, path: &Path) -> Option<String> {
    match path.to_str()? {
        "" => Some(folder.into()),
        path => Some(format!("{folder}/{path}")),
    }
}

fn parse(file: &HostFile) -> Result<Value> {
    let problem = |problem: String| LifecycleError::Snippet { path: file.source.clone(), problem };
    let text = std::str::from_utf8(&file.content).map_err(|error| problem(error.to_string()))?;
    let snippet: Value = json5::from_str(text).map_err(|error| problem(error.to_string()))?;
    if snippet.is_object() { Ok(snippet) } else { Err(problem("it is not an object".into())) }
}

#[cfg(test)]
mod tests;

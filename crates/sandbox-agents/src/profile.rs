use std::ffi::OsString;

use sandbox_model::{AgentName, AgentRecipe};

use crate::{AgentCommand, Launch};

/// Everything this program knows about one agent.
#[derive(Debug)]
pub struct Profile {
    /// What settings, labels and folders call it.
    pub name: AgentName,
    /// Its place where agents are listed: the lowest is first, and equal ones are in the alphabet's order.
    pub rank: u8,
    /// The command inside the sandbox.
    pub binary: &'static str,
    /// How an image gets it, and which package names its versions.
    pub install: Install,
    /// Environment of the image: true for every sandbox of this agent.
    pub image_env: &'static [(&'static str, &'static str)],
    /// Environment for a sandbox that cannot reach the public network: downloads that would only time out
    /// are not tried.
    pub offline_env: &'static [(&'static str, &'static str)],
    /// Environment where the machine is emulated in software.
    pub emulation_env: &'static [(&'static str, &'static str)],
    /// Where it reaches the model providers that it knows without configuration, and gets the token of a login
    /// with a subscription: destinations for the network policy.
    pub provider: &'static [&'static str],
    /// The user's and the project's configuration for it, kept beside this program's own.
    pub config: ConfigFiles,
    /// What the user has for this agent on the host.
    pub own: OwnFiles,
    /// `None` for an agent that is simply run.
    pub daemon: Option<DaemonProfile>,
    pub(crate) command: fn(&Launch<'_>) -> AgentCommand,
}

impl Profile {
    /// What to run on the user's terminal.
    pub fn command(&self, launch: &Launch<'_>) -> AgentCommand {
        (self.command)(launch)
    }

    /// How this agent gets into an image; `version` pins it, `None` takes the newest.
    pub fn recipe(&self, version: Option<String>) -> AgentRecipe {
        AgentRecipe {
            agent: self.name,
            version_arg: self.install.version_arg,
            version,
            install: self.install.script.to_string(),
            binary: self.binary.to_string(),
            image_env: owned(self.image_env),
            needs_node: self.install.needs_node,
        }
    }

    /// What its processes get beside the image's environment, in a sandbox that is `offline` (no way to
    /// the public network) or `emulated` (no hardware virtualization).
    pub fn environment(&self, offline: bool, emulated: bool) -> Vec<(String, String)> {
        let mut environment = Vec::new();
        if offline {
            environment.extend(owned(self.offline_env));
        }
        if emulated {
            environment.extend(owned(self.emulation_env));
        }
        environment
    }
}

fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

/// How the agent gets into an image; see [`AgentRecipe`].
#[derive(Debug)]
pub struct Install {
    /// The npm package that names the agent's versions.
    pub package: &'static str,
    /// The name under which npm has the newest of them.
    pub tag: &'static str,
    /// The build argument that pins the version; empty installs the newest.
    pub version_arg: &'static str,
    /// Fails rather than install another version than the one asked for.
    pub script: &'static str,
    /// The agent runs on node; otherwise node only installs it.
    pub needs_node: bool,
}

/// Where an agent keeps its configuration.
#[derive(Debug)]
pub struct ConfigFiles {
    /// The folder in the user's and the project's configuration, and the only one.
    pub host_dir: &'static str,
    /// Names that begin so and end like JSON are snippets of one document; all others are copied.
    pub snippet_prefix: &'static str,
    /// The guest folder that the copies go to, relative to the home.
    pub guest_dir: &'static str,
    /// The guest file that the snippets become, relative to the home.
    pub merged: &'static str,
    /// Files beside `merged` that the agent would read as well, and that would hide what it says.
    pub family: &'static [&'static str],
}

impl ConfigFiles {
    /// Whether the file at `path`, relative to the host folder, is part of the merged document.
    ///
    /// The rule is the prefix and `.json`, `.jsonc` or `.json5`, directly in the folder; so `opencode.json`
    /// itself is a snippet, and `permission.json5` is a file like any other. So is everything in a folder below
    /// it, whatever that is called: `settings.d/` is read by another program, or by none.
    pub fn is_snippet(&self, path: &str) -> bool {
        !path.contains('/')
            && path.starts_with(self.snippet_prefix)
            && [".json", ".jsonc", ".json5"].iter().any(|extension| path.ends_with(extension))
    }
}

/// The user's own files for an agent, at home on the host. Paths are relative to the home there and in the
/// guest.
#[derive(Debug)]
pub struct OwnFiles {
    /// Files and folders that by their kind hold no secret: instructions, prompts, commands, skills. They
    /// are copied unless the user says no.
    pub habits: &'static [&'static str],
    /// Everything else that is configuration: copied only with `provision-host-config`.
    pub config: &'static [&'static str],
    /// Names below these that are never copied: what a program installs or remembers there.
    pub never: &'static [&'static str],
    /// Where a login is kept. Never copied but by a mapping that names the file.
    pub credentials: &'static [&'static str],
    /// Variables that carry a credential as well.
    pub credential_env: &'static [&'static str],
}

impl OwnFiles {
    /// Whether the file at `path` (relative to the home) is not to be copied with its folder.
    pub fn is_left_out(&self, path: &str) -> bool {
        let secret = |name: &str| {
            let name = name.to_ascii_lowercase();
            name.starts_with(".env")
                || [".pem", ".key"].iter().any(|end| name.ends_with(end))
                || ["secret", "credential", "token"].iter().any(|word| name.contains(word))
                || name == "auth.json"
        };
        self.credentials.contains(&path)
            || path
                .split('/')
                .any(|name| name == ".git" || name == "node_modules" || self.never.contains(&name))
            || secret(path.rsplit('/').next().unwrap_or(path))
    }
}

/// An agent's server inside the sandbox.
#[derive(Debug)]
pub struct DaemonProfile {
    /// Arguments after the binary; the address is the guest's loopback and [`crate::DAEMON_PORT`].
    pub args: &'static [&'static str],
    /// The variable that carries the password, for the server and for its clients.
    pub password_env: &'static str,
    /// The user name that goes with it.
    pub username: &'static str,
    /// Guest file for what the server prints.
    pub log: &'static str,
    /// Answers `{"healthy": true}`.
    pub health_path: &'static str,
    /// What it is asked for before anybody needs it, because its first answer takes long: half of what it
    /// otherwise does between the user's first words and the model's.
    pub warm_up: &'static [&'static str],
    /// Whether it tells what its sessions do.
    pub session_status: bool,
    /// How it is asked for git worktrees.
    pub worktrees: WorktreeApi,
}

/// The two ways in which a server makes git worktrees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorktreeApi {
    /// `/experimental/worktree`: the server chooses the folder.
    Experimental,
    /// `/api/worktree/PROJECT`: the folder is said.
    Project,
}

impl DaemonProfile {
    /// The server's command line.
    pub fn argv(&self, binary: &str) -> Vec<OsString> {
        std::iter::once(binary).chain(self.args.iter().copied()).map(Into::into).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{profile, profiles};

    #[test]
    fn every_profile_is_of_one_piece() {
        for profile in profiles() {
            let agent = profile.name;
            let recipe = profile.recipe(Some("1.2.3".into()));
            assert!(recipe.install.contains(recipe.version_arg), "{agent}");
            assert_eq!(recipe.version.as_deref(), Some("1.2.3"));
            assert!(profile.config.merged.starts_with(profile.config.guest_dir), "{agent}");
        }
    }

    #[test]
    fn what_is_secret_by_its_name_is_left_out() {
        for Profile { name: agent, own, .. } in profiles() {
            for path in own.credentials.iter().copied().chain([
                "skills/deploy/.env",
                "skills/deploy/server.key",
                "prompts/github-token.txt",
                "skills/x/node_modules/y.js",
            ]) {
                assert!(own.is_left_out(path), "{agent} {path}");
            }
            for path in ["skills/deploy/SKILL.md", "AGENTS.md", "commands/keys.md"] {
                assert!(!own.is_left_out(path), "{agent} {path}");
            }
        }
    }

    #[test]
    fn snippets_are_told_by_place_prefix_and_extension() {
        let config = &profile(AgentName::OPENCODE).unwrap().config;
        for name in ["opencode.json", "opencode-mcp.jsonc", "opencode.local.json5"] {
            assert!(config.is_snippet(name), "{name}");
        }
        for name in ["permission.json5", "opencode.yaml", "opencode.json.bak", "AGENTS.md", "tui.json"] {
            assert!(!config.is_snippet(name), "{name}");
        }
        for Profile { name: agent, config, .. } in profiles() {
            let prefix = config.snippet_prefix;
            assert!(config.is_snippet(&format!("{prefix}.json")), "{agent}");
            for below in ["d/x.json", ".d/x.json", "-tools/data.jsonc", "/x.json5"] {
                assert!(!config.is_snippet(&format!("{prefix}{below}")), "{agent} {below}");
            }
            assert!(!config.is_snippet(&format!("sub/{prefix}.json")), "{agent}");
        }
    }
}

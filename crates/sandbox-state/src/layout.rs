use std::path::{Path, PathBuf};

use sandbox_model::{AgentName, CheckoutSlug, Digest, RepoSlug, SandboxName, VolumeName};

use sha2::{Digest as _, Sha256};

use crate::StateError;

/// The variables that decide where everything is.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    /// `HOME`, for whatever has no XDG variable.
    pub home: Option<PathBuf>,
    /// `XDG_CONFIG_HOME`.
    pub xdg_config_home: Option<PathBuf>,
    /// `XDG_STATE_HOME`.
    pub xdg_state_home: Option<PathBuf>,
    /// `XDG_DATA_HOME`.
    pub xdg_data_home: Option<PathBuf>,
}

impl Environment {
    /// As this process has them, unchecked: [`Layout::new`] passes over those that are not absolute.
    pub fn from_process() -> Self {
        let read = |name: &str| std::env::var_os(name).map(PathBuf::from);
        Self {
            home: read("HOME"),
            xdg_config_home: read("XDG_CONFIG_HOME"),
            xdg_state_home: read("XDG_STATE_HOME"),
            xdg_data_home: read("XDG_DATA_HOME"),
        }
    }
}

/// Every path on disk. Mirrored in `docs/state-on-disk.md`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// The user's own settings, which only the user and two commands write: `~/.config/agents-sandbox`.
    pub config: PathBuf,
    /// Small records and locks: `~/.local/state/agents-sandbox`.
    pub state: PathBuf,
    /// What is large, the homes included: `~/.local/share/agents-sandbox`.
    pub data: PathBuf,
}

const APP: &str = "agents-sandbox";

/// A file's name for a path.
fn hashed(path: &Path) -> String {
    let mut name = hex::encode(Sha256::digest(path.as_os_str().as_encoded_bytes()));
    name.truncate(32);
    name
}

impl Layout {
    /// XDG variables count only when absolute, as the XDG base directory specification says.
    pub fn new(environment: &Environment) -> Result<Self, StateError> {
        let base = |xdg: &Option<PathBuf>, fallback: &str, variable: &'static str| {
            let absolute = |path: &&PathBuf| path.is_absolute();
            match (xdg.as_ref().filter(absolute), environment.home.as_ref().filter(absolute)) {
                (Some(path), _) => Ok(path.join(APP)),
                (None, Some(home)) => Ok(home.join(fallback).join(APP)),
                (None, None) => Err(StateError::NoHome { variable }),
            }
        };
        Ok(Self {
            config: base(&environment.xdg_config_home, ".config", "XDG_CONFIG_HOME")?,
            state: base(&environment.xdg_state_home, ".local/state", "XDG_STATE_HOME")?,
            data: base(&environment.xdg_data_home, ".local/share", "XDG_DATA_HOME")?,
        })
    }

    /// The user's settings for every clone of one remote.
    pub fn repo_config(&self, repo: &RepoSlug) -> PathBuf {
        self.config.join(repo.as_str())
    }

    /// What is known of one checkout and agent. The folder need not be there.
    pub fn sandbox_state(&self, checkout: &CheckoutSlug, agent: AgentName) -> SandboxFiles {
        SandboxFiles { dir: self.state.join(checkout.as_str()).join(agent.as_str()) }
    }

    /// What the user has let the project's own files widen. Outside every checkout: no guest can write it.
    pub fn approvals(&self, checkout: &CheckoutSlug) -> PathBuf {
        self.state.join(checkout.as_str()).join("approvals.json")
    }

    /// What fingerprints of secrets are made with: without it, nobody tests guesses against a record.
    pub fn secret_key(&self) -> PathBuf {
        self.state.join("secret.key")
    }

    /// Says that this folder, absolute and resolved, was the whole checkout of a sandbox: its path, and behind a
    /// zero byte each name that it had, the last one last, and what else it had.
    pub fn checkout_root(&self, folder: &Path) -> PathBuf {
        self.checkout_roots().join(hashed(folder))
    }

    /// The folder of [`Layout::checkout_root`], one file per checkout.
    pub fn checkout_roots(&self) -> PathBuf {
        self.state.join("roots")
    }

    /// Says that a sandbox got this folder, absolute and resolved, beside its checkout, to write: its path.
    pub fn writable_folder(&self, folder: &Path) -> PathBuf {
        self.writable().join(hashed(folder))
    }

    /// The folder of [`Layout::writable_folder`], one file per folder.
    pub fn writable(&self) -> PathBuf {
        self.state.join("writable")
    }

    /// Held while a sandbox is made, started, changed or removed.
    pub fn boot_lock(&self, checkout: &CheckoutSlug, agent: AgentName) -> PathBuf {
        self.state.join("locks").join(checkout.as_str()).join(format!("{agent}.lock"))
    }

    /// Held shared while an image is used to make something, exclusive while images are removed.
    pub fn image_store_lock(&self) -> PathBuf {
        self.state.join("locks").join("images.lock")
    }

    /// Written when pruning by itself last asked the image engine.
    pub fn engine_pruned(&self) -> PathBuf {
        self.state.join("engine-pruned")
    }

    /// What npm said of newer agents.
    pub fn agent_versions(&self) -> PathBuf {
        self.state.join("agent-versions.json")
    }

    /// Held while that record is changed.
    pub fn agent_versions_lock(&self) -> PathBuf {
        self.state.join("locks").join("agent-versions.lock")
    }

    /// When a newer version of this program was last looked for, and which one the user does not want.
    pub fn upgrade_look(&self) -> PathBuf {
        self.state.join("upgrade.json")
    }

    /// Held while the image of one checkout and agent is built.
    pub fn build_lock(&self, checkout: &CheckoutSlug, agent: AgentName) -> PathBuf {
        self.state.join("locks").join(checkout.as_str()).join(format!("{agent}.build.lock"))
    }

    /// Held while a bootstrapped base image is made.
    pub fn base_lock(&self) -> PathBuf {
        self.state.join("locks").join("base.lock")
    }

    /// The folder of all home volumes: the users' data, which no cleaning up may touch unasked.
    pub fn volumes(&self) -> PathBuf {
        self.data.join("volumes")
    }

    /// The raw ext4 image of one home.
    pub fn volume(&self, name: &VolumeName) -> PathBuf {
        self.volumes().join(format!("{name}.ext4"))
    }

    /// The private microsandbox runtime.
    pub fn msb(&self) -> PathBuf {
        self.data.join("msb")
    }

    /// The files of [`Layout::msb`].
    pub fn msb_files(&self) -> MsbFiles {
        MsbFiles { dir: self.msb() }
    }

    /// How the first boot of microsandbox went here. In the state folder: each computer has its own.
    pub fn microsandbox_trial(&self) -> PathBuf {
        self.state.join("microsandbox.json")
    }

    /// Held while that first boot is made.
    pub fn microsandbox_trial_lock(&self) -> PathBuf {
        self.state.join("locks").join("microsandbox.lock")
    }

    /// Storage of rootless or private image engines and of bootstrapped bases.
    pub fn engine(&self) -> PathBuf {
        self.data.join("engine")
    }

    /// Everything the QEMU driver keeps: images, sandboxes, kernels.
    pub fn qemu(&self) -> QemuLayout {
        QemuLayout { dir: self.data.join("qemu") }
    }
}

/// The files of one checkout and agent in the state directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxFiles {
    /// `<checkout-slug>/<agent>` of the state directory.
    pub dir: PathBuf,
}

impl SandboxFiles {
    /// The [`crate::ProjectState`].
    pub fn state(&self) -> PathBuf {
        self.dir.join("state.yaml")
    }

    /// Password and port of the agent's server, valid for one boot.
    pub fn daemon(&self) -> PathBuf {
        self.dir.join("daemon.json")
    }

    /// Held while the agent's server is started and waited for. Nothing else is taken under it.
    pub fn daemon_lock(&self) -> PathBuf {
        self.dir.join("daemon.lock")
    }

    /// What was copied into the home.
    pub fn provision(&self) -> PathBuf {
        self.dir.join("provision.json")
    }

    /// Which destinations the user was told that the network refused.
    pub fn network_told(&self) -> PathBuf {
        self.dir.join("network-told.json")
    }

    /// Held by the client that tells the user of one thing of one session.
    pub fn claims(&self) -> PathBuf {
        self.dir.join("claims")
    }

    /// Paths alone: whether there is a keeper, its lock says.
    pub fn keeper(&self) -> KeeperFiles {
        KeeperFiles {
            dir: self.dir.clone(),
            lock: self.dir.join("keeper.lock"),
            socket: self.dir.join("keeper.sock"),
            log: self.dir.join("keeper.log"),
            ssh_agent_log: self.dir.join("ssh-agent.log"),
        }
    }
}

/// A keeper's own files, all in `dir`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeeperFiles {
    /// The folder of the checkout and agent, which its other records are in as well.
    pub dir: PathBuf,
    /// Held for as long as the keeper lives.
    pub lock: PathBuf,
    /// Where it takes leases.
    pub socket: PathBuf,
    /// What it decided, and why.
    pub log: PathBuf,
    /// What the sandbox did with the user's ssh-agent.
    pub ssh_agent_log: PathBuf,
}

/// The private microsandbox runtime: its home, and what we keep in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MsbFiles {
    /// The runtime's home: `msb` of the data directory.
    pub dir: PathBuf,
}

impl MsbFiles {
    /// The program and its library, as one folder that is put in place in one step.
    pub fn version(&self, version: &str) -> PathBuf {
        self.dir.join(version)
    }

    /// Which files were verified, and how they looked then.
    pub fn installed(&self) -> PathBuf {
        self.dir.join("installed.json")
    }

    /// Held while a version is installed or repaired.
    pub fn lock(&self) -> PathBuf {
        self.dir.join("install.lock")
    }

    /// Links into the current version's folder, where the runtime itself looks.
    pub fn links(&self) -> [PathBuf; 2] {
        [self.dir.join("bin"), self.dir.join("lib")]
    }
}

/// The QEMU driver's folders below the data directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QemuLayout {
    /// `qemu` of the data directory.
    pub dir: PathBuf,
}

impl QemuLayout {
    /// The folder of all images.
    pub fn images(&self) -> PathBuf {
        self.dir.join("images")
    }

    /// One folder per image content.
    pub fn image(&self, digest: &Digest) -> PathBuf {
        self.images().join(digest.hex())
    }

    /// One file per reference, naming its digest.
    pub fn references(&self) -> PathBuf {
        self.dir.join("references")
    }

    /// The folder of all sandboxes. Their names are the machine's list of them: there is no other.
    pub fn sandboxes(&self) -> PathBuf {
        self.dir.join("sandboxes")
    }

    /// Record, root disk, sockets, locks and logs of one sandbox.
    pub fn sandbox(&self, name: &SandboxName) -> PathBuf {
        self.sandboxes().join(name)
    }

    /// Kernels wrapped for direct boot, and the initrd, by content.
    pub fn boot_files(&self) -> PathBuf {
        self.dir.join("boot")
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn environment(home: &str, state: Option<&str>) -> Environment {
        Environment {
            home: Some(home.into()),
            xdg_state_home: state.map(Into::into),
            ..Environment::default()
        }
    }

    #[test]
    fn the_pages_paths() {
        let layout = Layout::new(&environment("/home/u", None)).unwrap();
        assert_eq!(layout.config, Path::new("/home/u/.config/agents-sandbox"));
        assert_eq!(layout.msb(), Path::new("/home/u/.local/share/agents-sandbox/msb"));
        let checkout = CheckoutSlug::new("myproject", Path::new("/home/u/myproject/.git"));
        assert_eq!(
            layout.sandbox_state(&checkout, AgentName::OPENCODE).state(),
            Path::new("/home/u/.local/state/agents-sandbox/myproject-4chyvv5c1qh507/opencode/state.yaml")
        );
        assert_eq!(
            layout.approvals(&checkout),
            Path::new("/home/u/.local/state/agents-sandbox/myproject-4chyvv5c1qh507/approvals.json")
        );
        assert_eq!(
            layout.boot_lock(&checkout, AgentName::literal("claude-code")),
            Path::new("/home/u/.local/state/agents-sandbox/locks/myproject-4chyvv5c1qh507/claude-code.lock")
        );
    }

    #[test]
    fn a_relative_xdg_variable_is_ignored() {
        let layout = Layout::new(&environment("/home/u", Some("state"))).unwrap();
        assert_eq!(layout.state, Path::new("/home/u/.local/state/agents-sandbox"));
        assert_eq!(
            Layout::new(&environment("/home/u", Some("/s"))).unwrap().state,
            Path::new("/s/agents-sandbox")
        );
    }

    #[test]
    fn no_home_is_an_error_that_names_the_variable() {
        let error = Layout::new(&Environment::default()).unwrap_err();
        assert_eq!(error.to_string(), "neither XDG_CONFIG_HOME nor HOME is set to an absolute path");
    }
}

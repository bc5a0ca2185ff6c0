use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sandbox_image::{BaseSetting, EngineSetting, HostCaSetting, ProjectSource};
use sandbox_model::{
    AgentName, ByteSize, CheckoutSlug, ExtraMount, ImageRef, NetworkPolicy, PortForward, Proxies, RepoSlug,
    Resources, SecretSpec, SecretValues,
};

use sandbox_keeper::SshAgentOffer;
use sandbox_state::AgentVersion;

use crate::Target;

/// A checkout, as resolved from the folder where the command was typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    pub checkout: CheckoutSlug,
    pub repo: Option<RepoSlug>,
    /// The folder that becomes `/workspace`: absolute and resolved.
    pub root: PathBuf,
    /// Where the command was typed, relative to `root`; empty at its top.
    pub subdir: PathBuf,
    /// The project's `.agents-sandbox` folder, whether or not it exists.
    pub config_dir: PathBuf,
    pub repository: Option<Repository>,
}

/// The git directory of a checkout, shared by all its worktrees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    /// Absolute and resolved: in the checkout, or a folder that the sandbox has at the same place as the host.
    pub path: PathBuf,
    /// `path` as the checkout's own pointer leads there from its root, where that is a relative path.
    pub relative: Option<PathBuf>,
}

/// What a sandbox is made with, resolved from every layer of settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxSettings {
    /// `cpus` at least 1: the caller has replaced "all" by the host's count.
    pub resources: Resources,
    /// `None` is the built-in size.
    pub disk_size: Option<ByteSize>,
    pub tmp_size: ByteSize,
    pub workspace_quota: ByteSize,
    pub network: NetworkPolicy,
    /// Beside the checkout.
    pub mounts: Vec<ExtraMount>,
    pub ports: Vec<PortForward>,
    /// By name.
    pub secrets: Vec<SecretSpec>,
    /// The user's ssh-agent, where the sandbox may use it.
    pub ssh_agent: Option<SshAgentOffer>,
    /// On top of the image's environment.
    pub env: BTreeMap<String, String>,
    /// A sandbox that nobody uses is put to sleep, where the runtime can.
    pub sleep: bool,
    pub auto_stop_timeout: Duration,
    pub auto_stop_on_active_sessions: bool,
    pub auto_stop_max_session_retries: u32,
}

/// What is copied into the guest's home beside the agent's folders of ours.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProvisionSettings {
    /// By the path in the guest's home.
    pub home: BTreeMap<String, HomeMapping>,
    /// Also the configuration that the agent has on the host.
    pub host_config: bool,
    /// The user's instructions, prompts, commands and skills for the agent.
    pub habits: bool,
    /// The user's home on the host; without it there is nothing of the agent's to look for there.
    pub host_home: Option<PathBuf>,
}

/// A file or folder of the host that is copied into the guest's home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HomeMapping {
    /// Absolute, not resolved, and maybe not there.
    pub source: PathBuf,
    /// Run in the guest after a boot, before the agent.
    pub startup: bool,
    /// Run as root.
    pub root: bool,
}

/// How the runner image is made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageSettings {
    pub engine: EngineSetting,
    pub base: BaseSetting,
    pub host_ca: HostCaSetting,
    /// A Docker engine joins the image, and runs in the sandbox.
    pub docker: bool,
    /// What the project's own folder adds.
    pub source: Arc<ProjectSource>,
}

impl ImageSettings {
    /// Whether a Docker engine is to run in the sandbox: the settings or the project's base say so.
    pub fn wants_docker(&self) -> bool {
        self.docker || self.source.wants_docker()
    }
}

/// One wish for a runner image.
#[derive(Debug, Clone)]
pub struct BuildRequest {
    pub project: Project,
    pub agent: AgentName,
    pub image: ImageSettings,
    /// Build anew, without layer caches.
    pub rebuild: bool,
    /// The agent's version; `None` is the newest at build time.
    pub agent_version: Option<AgentVersion>,
    /// Through which proxies this host reaches the world.
    pub proxies: Option<Proxies>,
}

impl BuildRequest {
    pub fn target(&self) -> Target {
        Target { checkout: self.project.checkout.clone(), agent: self.agent }
    }

    /// The image's name in the engine and in the runtime.
    pub fn reference(&self) -> ImageRef {
        ImageRef::runner(&self.project.checkout, self.agent)
    }
}

/// One wish for a running sandbox.
#[derive(Debug, Clone)]
pub struct UpRequest {
    pub project: Project,
    pub agent: AgentName,
    pub settings: SandboxSettings,
    /// Of the settings' secrets; in no record.
    pub secret_values: SecretValues,
    /// Through which proxies this host reaches the world; in no record.
    pub proxies: Option<Proxies>,
    pub provision: ProvisionSettings,
    pub image: ImageSettings,
    /// Build the image anew, without layer caches.
    pub rebuild: bool,
    /// The agent's version in the image; `None` is the newest at build time.
    pub agent_version: Option<AgentVersion>,
    /// Hold the sandbox at least this long from now on, whoever leaves and whatever the agent does.
    pub keep: Option<Duration>,
    /// The verb that others see while this client is attached: `run`, `shell`, `exec`.
    pub verb: &'static str,
}

impl UpRequest {
    pub fn target(&self) -> Target {
        Target { checkout: self.project.checkout.clone(), agent: self.agent }
    }

    /// The image that the sandbox is made from.
    pub fn build_request(&self) -> BuildRequest {
        BuildRequest {
            project: self.project.clone(),
            agent: self.agent,
            image: self.image.clone(),
            rebuild: self.rebuild,
            agent_version: self.agent_version.clone(),
            proxies: self.proxies.clone(),
        }
    }
}

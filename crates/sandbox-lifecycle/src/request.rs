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
    /// What everything of this checkout is named by.
    pub checkout: CheckoutSlug,
    /// Names the user's settings for every clone of its remote.
    pub repo: Option<RepoSlug>,
    /// The folder that becomes `/workspace`: absolute and resolved.
    pub root: PathBuf,
    /// Where the command was typed, relative to `root`; empty at its top.
    pub subdir: PathBuf,
    /// The project's `.agents-sandbox` folder, whether or not it exists.
    pub config_dir: PathBuf,
    /// Its git directory, where the sandbox sees it. `None` where git has nothing to do with the folder, or
    /// where its repository stays outside.
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
    /// Of the tmpfs at `/tmp`.
    pub tmp_size: ByteSize,
    /// How much the guest may add to the checkout.
    pub workspace_quota: ByteSize,
    /// What the guest may reach.
    pub network: NetworkPolicy,
    /// Beside the checkout.
    pub mounts: Vec<ExtraMount>,
    /// Ports of the host that lead into the guest.
    pub ports: Vec<PortForward>,
    /// By name.
    pub secrets: Vec<SecretSpec>,
    /// The user's ssh-agent, where the sandbox may use it.
    pub ssh_agent: Option<SshAgentOffer>,
    /// On top of the image's environment.
    pub env: BTreeMap<String, String>,
    /// A sandbox that nobody uses is put to sleep, where the runtime can.
    pub sleep: bool,
    /// How long the sandbox stays up with nobody and nothing that holds it.
    pub auto_stop_timeout: Duration,
    /// Stop even while sessions work.
    pub auto_stop_on_active_sessions: bool,
    /// How often a session may have retried and still hold the sandbox.
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
    /// Which program builds.
    pub engine: EngineSetting,
    /// What images are built on where the project has no base of its own.
    pub base: BaseSetting,
    /// Whether images trust what the host trusts.
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
    /// Whose image it is.
    pub project: Project,
    /// What runs in it.
    pub agent: AgentName,
    /// What else decides its content.
    pub image: ImageSettings,
    /// Build anew, without layer caches.
    pub rebuild: bool,
    /// The agent's version; `None` is the newest at build time.
    pub agent_version: Option<AgentVersion>,
    /// Through which proxies this host reaches the world.
    pub proxies: Option<Proxies>,
}

impl BuildRequest {
    /// The sandbox that the image is for.
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
    /// Whose sandbox it is.
    pub project: Project,
    /// What works in it; another agent has another sandbox.
    pub agent: AgentName,
    /// What it is made with.
    pub settings: SandboxSettings,
    /// Of the settings' secrets; in no record.
    pub secret_values: SecretValues,
    /// Through which proxies this host reaches the world; in no record.
    pub proxies: Option<Proxies>,
    /// What of the user's own goes into the home.
    pub provision: ProvisionSettings,
    /// What its image is made from.
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
    /// Which sandbox it is.
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

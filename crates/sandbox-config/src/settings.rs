use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use sandbox_model::{AgentName, ByteSize, NetworkProfile};

use crate::base::ImageBase;
use crate::error::Refusal;
use crate::home::{self, HomeFile};
use crate::mounts::{self, Mount};
use crate::network;
use crate::origin::{Origin, Value};
use crate::proxy::{self, ProxySetting};
use crate::read::{self, Folders};
use crate::show::Show;
use crate::tree::Node;
use crate::words::{
    AgentUpdates, AutoStop, HostCa, ImageEngine, LogLevel, NotifyAudio, QemuAccel, RuntimeChoice, UpgradeMode,
};

/// How often a failing session is retried before it no longer holds its sandbox.
pub(crate) const RETRIES: u32 = 10;
const DAY: u64 = 86_400;

/// A setting's name and where else than in files it can be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// As in files; a dot is one more level.
    pub name: &'static str,
    /// What it decides.
    pub about: &'static str,
    /// `AGENTS_SANDBOX_…` is read for it.
    pub env: bool,
    /// The flag that sets it, with its dashes; `None` where only files and variables do.
    pub flag: Option<&'static str>,
}

impl Key {
    /// The variable's name after its prefix.
    pub fn variable(&self) -> String {
        self.name.to_ascii_uppercase().replace(['-', '.'], "_")
    }
}

macro_rules! settings {
    ($($(#[doc = $about:literal])+ $field:ident: $type:ty = $default:expr; $name:literal, $read:path, $env:literal, $flag:expr;)+) => {
        /// Every setting, resolved.
        #[derive(Debug, Clone, PartialEq)]
        pub struct Settings {
            $($(#[doc = $about])+ pub $field: Value<$type>,)+
            /// Folders of the host in the guest, by their path in the guest.
            pub mounts: BTreeMap<String, Value<Mount>>,
            /// Files of the host that are copied into the guest's home, by their path in it.
            pub home: BTreeMap<String, Value<HomeFile>>,
        }

        impl Default for Settings {
            fn default() -> Self {
                Self {
                    $($field: Value::default($default),)+
                    mounts: BTreeMap::new(),
                    home: BTreeMap::new(),
                }
            }
        }

        /// Every setting there is, in the order in which they are listed.
        pub const KEYS: &[Key] = &[
            $(Key { name: $name, about: concat!($($about),+), env: $env, flag: $flag },)+
            Key { name: "mounts", about: " Folders of the host in the guest.", env: false, flag: None },
            Key { name: "home", about: " Files of the host that are copied into the guest's home.", env: false, flag: None },
            Key { name: DIND, about: " The old name of `docker`.", env: true, flag: Some("--dind") },
        ];

        impl Settings {
            /// Sets `key`, which is one of [`KEYS`], from a value of the layer that is read now.
            pub(crate) fn assign(&mut self, key: &str, node: &Node, source: &Source<'_>) -> Result<(), Refusal> {
                match key {
                    $($name => self.$field = Value { value: $read(node, source.folders)?, origin: source.origin(node.span.start) },)+
                    "mounts" => mounts::assign(&mut self.mounts, node, source)?,
                    "home" => home::assign(&mut self.home, node, source)?,
                    DIND => self.docker = Value { value: read::boolean(node, source.folders)?, origin: source.origin(node.span.start) },
                    _ => {}
                }
                Ok(())
            }

            /// Calls `see` with every plain setting.
            pub(crate) fn each(&self, mut see: impl FnMut(&'static str, &dyn Show, &Origin)) {
                $(see($name, &self.$field.value, &self.$field.origin);)+
            }
        }
    };
}

/// One layer while it is read.
pub(crate) struct Source<'a> {
    pub folders: &'a Folders,
    pub origin: &'a dyn Fn(usize) -> Origin,
}

impl Source<'_> {
    /// `offset` is the place in the layer's text.
    pub fn origin(&self, offset: usize) -> Origin {
        (self.origin)(offset)
    }
}

/// The deprecated key that sets `docker`.
pub(crate) const DIND: &str = "dind";

settings! {
    /// The agent that works in the sandbox.
    agent: AgentName = AgentName::OPENCODE; "agent", read::agent, true, Some("--agent");
    /// Answer yes to every question.
    yes: bool = false; "yes", read::boolean, true, Some("--yes");
    /// Print no results, only what went wrong.
    quiet: bool = false; "quiet", read::boolean, true, Some("--quiet");
    /// The least important messages that are shown.
    log_level: LogLevel = LogLevel::Info; "log-level", read::word, true, Some("--log-level");
    /// Virtual processors; 0 is as many as the host has.
    cpus: u8 = 0; "cpus", read::cpus, true, Some("--cpus");
    /// The guest's memory.
    memory: ByteSize = ByteSize::gib(4); "memory", read::size, true, Some("--memory");
    /// The root disk's size; empty is 4G.
    disk_size: Option<ByteSize> = None; "disk-size", read::optional_size, true, Some("--disk-size");
    /// The size of `/tmp`.
    tmp_size: ByteSize = ByteSize::gib(2); "tmp-size", read::size, true, Some("--tmp-size");
    /// How much the guest may add to the checkout.
    workspace_quota: ByteSize = ByteSize::gib(16); "workspace-quota", read::size, true, Some("--workspace-quota");
    /// What runs sandboxes.
    runtime: RuntimeChoice = RuntimeChoice::Auto; "runtime", read::word, true, None;
    /// How QEMU runs the guest's instructions.
    qemu_accel: QemuAccel = QemuAccel::Auto; "qemu.accel", read::word, true, None;
    /// Another guest kernel than the built-in one.
    qemu_kernel: Option<PathBuf> = None; "qemu.kernel", read::path, true, None;
    /// A folder or archive to install microsandbox from.
    msb_archive: Option<PathBuf> = None; "msb.archive", read::path, true, None;
    /// Which program builds images.
    image_engine: ImageEngine = ImageEngine::Auto; "image.engine", read::word, true, None;
    /// What runner images are built on.
    image_base: ImageBase = ImageBase::Auto; "image.base", read::image_base, true, None;
    /// Whether the host's CA certificates are trusted in the build and in the guest.
    image_host_ca: HostCa = HostCa::Auto; "image.host-ca", read::word, true, None;
    /// Put a Docker engine into the image.
    docker: bool = false; "docker", read::boolean, true, Some("--docker");
    /// Copy the agent's configuration of the host into the guest.
    provision_host_config: bool = false; "provision-host-config", read::boolean, true, None;
    /// Copy the user's instructions, prompts, commands and skills for the agent into the guest.
    provision_habits: bool = true; "provision-habits", read::boolean, true, None;
    /// The addresses the guest may reach before the lists are looked at.
    network_profile: NetworkProfile = NetworkProfile::None; "network.profile", read::profile, true, Some("--network");
    /// What the agent needs to reach its model provider; allowed on top of the profile.
    network_provider: Vec<String> = Vec::new(); "network.provider", network::allowed, false, None;
    /// Destinations that are allowed on top of the profile.
    network_egress_allow: Vec<String> = Vec::new(); "network.egress-allow", network::allowed, false, None;
    /// Destinations that are denied, whatever else allows them.
    network_egress_deny: Vec<String> = Vec::new(); "network.egress-deny", network::destinations, false, None;
    /// Resolvers to ask instead of the host's own.
    network_dns_servers: Vec<String> = Vec::new(); "network.dns-servers", network::resolvers, true, Some("--dns");
    /// The proxy through which this host reaches the world.
    network_proxy: ProxySetting = ProxySetting::Auto; "network.proxy", proxy::proxy, true, None;
    /// What is reached without the proxy.
    network_no_proxy: Vec<String> = Vec::new(); "network.no-proxy", proxy::no_proxy, true, None;
    /// Ports of the host that lead to ports of the guest.
    ports: Vec<String> = Vec::new(); "ports", network::ports, false, Some("--publish");
    /// Let programs in the sandbox use the keys of the host's ssh-agent.
    ssh_agent: bool = false; "ssh.agent", read::boolean, true, Some("--ssh-agent");
    /// Which keys of the ssh-agent, by fingerprint or comment; empty is every key.
    ssh_keys: Vec<String> = Vec::new(); "ssh.keys", read::texts, false, None;
    /// Sign git commits in the sandbox as git on the host does, with the ssh-agent's key.
    git_signing: bool = false; "git.signing", read::boolean, true, None;
    /// What happens to a sandbox that nobody uses.
    auto_stop: AutoStop = AutoStop::Sleep; "auto-stop", read::word, true, None;
    /// How long a sandbox stays up after its last client left.
    auto_stop_timeout: Duration = Duration::from_secs(10); "auto-stop-timeout", read::duration, true, None;
    /// Stop even while the agent still works.
    auto_stop_on_active_sessions: bool = false; "auto-stop-on-active-sessions", read::boolean, true, None;
    /// How often a failing session is retried before it no longer holds its sandbox.
    auto_stop_max_session_retries: u32 = RETRIES; "auto-stop-max-session-retries", read::retries, true, None;
    /// How long the saved memory of a sleeping sandbox is kept.
    memory_keep: Duration = Duration::from_secs(7 * DAY); "memory-keep", read::duration, true, None;
    /// How long unused things are kept before they are pruned unasked.
    auto_prune_age: Duration = Duration::from_secs(30 * DAY); "auto-prune-age", read::duration, true, None;
    /// How old unused things must be for `prune` to take them.
    manual_prune_age: Duration = Duration::from_secs(7 * DAY); "manual-prune-age", read::duration, true, Some("--older-than");
    /// What a newer version of this program leads to.
    upgrade_mode: UpgradeMode = UpgradeMode::Prompt; "upgrade.mode", read::word, true, None;
    /// Where releases of this program are: a folder, or the https address of one.
    upgrade_source: Option<String> = None; "upgrade.source", read::release_source, true, Some("--from");
    /// What a newer version of the agent leads to.
    upgrade_agents: AgentUpdates = AgentUpdates::Prompt; "upgrade.agents", read::word, true, None;
    /// How often newer versions are looked for.
    upgrade_interval: Duration = Duration::from_secs(DAY); "upgrade.interval", read::interval, true, None;
    /// Notify on the desktop.
    notify_desktop: bool = false; "notify.desktop", read::boolean, false, Some("--notify");
    /// Notify by sound.
    notify_audio: NotifyAudio = NotifyAudio::Off; "notify.audio", read::word, false, Some("--notify");
    /// Notify when the agent waits for an answer.
    notify_on_input: bool = true; "notify.on-input", read::boolean, false, None;
    /// Notify when the agent is done.
    notify_on_done: bool = true; "notify.on-done", read::boolean, false, None;
    /// Notify when the agent failed.
    notify_on_error: bool = true; "notify.on-error", read::boolean, false, None;
}

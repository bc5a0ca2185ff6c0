use crate::ConfigError;
use crate::error::Refusal;
use crate::notify;
use crate::origin::{Origin, Value};
use crate::read::Folders;
use crate::settings::{DIND, KEYS, Settings, Source};
use crate::tree::{Node, Tree};

/// What was typed, as it was typed; `None` is a flag that was not given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Flags {
    /// `--agent`.
    pub agent: Option<String>,
    /// `--yes`.
    pub yes: Option<bool>,
    /// `--quiet`.
    pub quiet: Option<bool>,
    /// `--log-level`: `error`, `warning`, `info` or `verbose`.
    pub log_level: Option<String>,
    /// `--cpus`: how many; 0 is as many as the host has.
    pub cpus: Option<String>,
    /// `--memory`: a size such as `4G`.
    pub memory: Option<String>,
    /// `--disk-size`: a size, of the root disk.
    pub disk_size: Option<String>,
    /// `--tmp-size`: a size, of the tmpfs at `/tmp`.
    pub tmp_size: Option<String>,
    /// `--workspace-quota`: a size, of what the guest may add to the checkout.
    pub workspace_quota: Option<String>,
    /// Replaces the whole network policy of the layers below, the lists included.
    pub network: Option<String>,
    /// One item for each time the flag was given; each may be a list with commas.
    pub dns: Vec<String>,
    /// Like `dns`.
    pub publish: Vec<String>,
    /// `--docker`: a Docker engine of its own in the guest.
    pub docker: Option<bool>,
    /// `--ssh-agent`.
    pub ssh_agent: Option<bool>,
    /// The old name of `docker`.
    pub dind: Option<bool>,
    /// `on`, `off`, `desktop`, `audio`, `bell` or `sound`.
    pub notify: Option<String>,
    /// `--older-than`: a duration such as `7d`, for the command that prunes.
    pub older_than: Option<String>,
    /// `upgrade --from`.
    pub upgrade_source: Option<String>,
}

impl Flags {
    /// Key and value of every flag that was given and sets one plain key.
    fn given(&self) -> Vec<(&'static str, String)> {
        let bool = |flag: Option<bool>| flag.map(|flag| flag.to_string());
        [
            ("agent", self.agent.clone()),
            ("yes", bool(self.yes)),
            ("quiet", bool(self.quiet)),
            ("log-level", self.log_level.clone()),
            ("cpus", self.cpus.clone()),
            ("memory", self.memory.clone()),
            ("disk-size", self.disk_size.clone()),
            ("tmp-size", self.tmp_size.clone()),
            ("workspace-quota", self.workspace_quota.clone()),
            ("network.profile", self.network.clone()),
            ("network.dns-servers", (!self.dns.is_empty()).then(|| self.dns.join(","))),
            ("ports", (!self.publish.is_empty()).then(|| self.publish.join(","))),
            ("manual-prune-age", self.older_than.clone()),
            ("upgrade.source", self.upgrade_source.clone()),
            (DIND, bool(self.dind)),
            ("docker", bool(self.docker)),
            ("ssh.agent", bool(self.ssh_agent)),
        ]
        .into_iter()
        .filter_map(|(key, value)| Some((key, value?)))
        .collect()
    }
}

/// Applies the flags. Returns whether the old name of `docker` was used.
pub(crate) fn apply(settings: &mut Settings, flags: &Flags, folders: &Folders) -> Result<bool, ConfigError> {
    if flags.network.is_some() {
        let origin = Origin::Flag { name: "--network" };
        let none = || Value { value: Vec::new(), origin: origin.clone() };
        settings.network_provider = none();
        settings.network_egress_allow = none();
        settings.network_egress_deny = none();
        settings.network_dns_servers = none();
    }
    for (key, value) in flags.given() {
        let Some(flag) = KEYS.iter().find(|known| known.name == key).and_then(|known| known.flag) else {
            continue;
        };
        let origin = |_| Origin::Flag { name: flag };
        let node = Node { tree: Tree::Text(value), span: 0..0 };
        let source = Source { folders, origin: &origin };
        settings.assign(key, &node, &source).map_err(|refusal| refused(flag, refusal))?;
    }
    if let Some(mode) = &flags.notify {
        let origin = Origin::Flag { name: "--notify" };
        notify::apply(settings, mode, &origin).map_err(|refusal| refused("--notify", refusal))?;
    }
    Ok(flags.dind.is_some())
}

fn refused(flag: &'static str, refusal: Refusal) -> ConfigError {
    ConfigError::Flag { flag, message: refusal.message, help: refusal.help }
}

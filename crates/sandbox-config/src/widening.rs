use std::path::PathBuf;

use sandbox_model::NetworkProfile;

use crate::base::ImageBase;
use crate::entries::entries;
use crate::origin::Origin;
use crate::plain::plain;
use crate::settings::Settings;
use crate::words::UpgradeMode;

/// What the project's own file sets.
#[derive(Debug, Clone)]
pub struct ProjectLayer {
    /// The settings file in the project's `.agents-sandbox`.
    pub file: PathBuf,
    /// The built-in settings with this file alone on top.
    pub settings: Settings,
    /// Denials of the layers below that its own list of denials leaves out.
    pub dropped_denials: Vec<String>,
}

impl ProjectLayer {
    pub(crate) fn new(file: PathBuf, settings: Settings, below: &Settings) -> Self {
        let replaced = matches!(settings.network_egress_deny.origin, Origin::File { .. });
        let dropped = below.network_egress_deny.value.iter();
        let dropped =
            dropped.filter(|denial| replaced && !settings.network_egress_deny.value.contains(denial));
        let dropped_denials = dropped.cloned().collect();
        Self { file, settings, dropped_denials }
    }
}

/// One thing that a project's file would let its sandbox, or this program, do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Widening {
    /// As [`Entry::key`](crate::Entry).
    pub key: String,
    /// The value, for people; what is approved is exactly this. Control characters are written out.
    pub text: String,
    /// In the project's file, from 1; 0 for something that the file leaves out.
    pub line: usize,
}

/// What the project's file widens. Whoever works in the sandbox can write that file, so none of this may
/// take effect before the user has approved it. What the file only tightens, or what concerns nothing
/// but the sandbox's own size, is not listed; what only the user can say is refused by [`load`](crate::load).
pub fn widening(project: &ProjectLayer) -> Vec<Widening> {
    let mut widenings: Vec<Widening> = entries(&project.settings)
        .into_iter()
        .filter_map(|entry| match entry.origin {
            Origin::File { line, .. } if widens(&entry.key, &project.settings) => {
                Some(Widening { key: plain(&entry.key), text: plain(&entry.value), line })
            }
            _ => None,
        })
        .collect();
    if !project.dropped_denials.is_empty() {
        let text = plain(&format!("no longer denies {}", project.dropped_denials.join(", ")));
        widenings.push(Widening { key: "network.egress-deny".into(), text, line: 0 });
    }
    widenings
}

fn widens(key: &str, settings: &Settings) -> bool {
    match key {
        "network.profile" => settings.network_profile.value != NetworkProfile::None,
        "network.provider" => !settings.network_provider.value.is_empty(),
        "network.egress-allow" => !settings.network_egress_allow.value.is_empty(),
        "ports" => !settings.ports.value.is_empty(),
        "network.dns-servers" => !settings.network_dns_servers.value.is_empty(),
        "docker" => settings.docker.value,
        "ssh.agent" => settings.ssh_agent.value,
        "git.signing" => settings.git_signing.value,
        "provision-host-config" => settings.provision_host_config.value,
        // The default; but the user may have said no.
        "provision-habits" => settings.provision_habits.value,
        // What the guest is made of.
        "image.base" => settings.image_base.value != ImageBase::Auto,
        "upgrade.mode" => matches!(settings.upgrade_mode.value, UpgradeMode::Auto | UpgradeMode::AutoExit),
        // These decide over the sandboxes and homes of every project; another list of keys than the user's may name
        // other keys, and an empty one is all of them.
        "ssh.keys" | "auto-prune-age" | "manual-prune-age" | "memory-keep" => true,
        _ => key.starts_with("mounts.") || key.starts_with("home."),
    }
}

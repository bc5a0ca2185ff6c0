//! What of the user's ssh keys a sandbox may use: the agent's offer, and git's settings for signing.

mod git;

use std::collections::BTreeMap;
use std::path::PathBuf;

use sandbox_config::Settings;
use sandbox_lifecycle::SshAgentOffer;
use sandbox_model::AgentRules;
use sandbox_ssh_agent::fingerprint;

use crate::app::App;
use crate::error::CommandError;
use git::Signing;

/// What the settings give to the sandbox.
#[derive(Debug, Default)]
pub struct Ssh {
    pub offer: Option<SshAgentOffer>,
    /// Variables that are git's configuration in the guest.
    pub env: BTreeMap<String, String>,
}

impl Ssh {
    /// `root` is the checkout; `env` are the sandbox's own variables.
    pub fn resolve(
        app: &App,
        settings: &Settings,
        root: &std::path::Path,
        env: &BTreeMap<String, String>,
    ) -> Result<Self, CommandError> {
        let (agent, signing) = (settings.ssh_agent.value, settings.git_signing.value);
        if !agent && !signing {
            return Ok(Self::default());
        }
        let signing = if signing { Some(git::signing(root)?) } else { None };
        let socket = std::env::var_os("SSH_AUTH_SOCK").map(PathBuf::from).filter(|path| path.is_absolute());
        if socket.is_none() {
            app.console.warning(
                "SSH_AUTH_SOCK is not set: programs in the sandbox reach an ssh-agent of yours only where an earlier \
                 command brought one",
            );
        }
        let rules = rules(agent, &settings.ssh_keys.value, signing.as_ref());
        let env = signing.map(|signing| signing.environment(env)).unwrap_or_default();
        Ok(Self { offer: Some(SshAgentOffer { socket, rules }), env })
    }
}

/// Signing alone is one key, for git alone. A list of keys is never widened but by the one that signs.
fn rules(agent: bool, keys: &[String], signing: Option<&Signing>) -> AgentRules {
    let signs_with = signing.map(|signing| fingerprint(&signing.key));
    let mut keys = if agent { keys.to_vec() } else { Vec::new() };
    if !agent || !keys.is_empty() {
        keys.extend(signs_with);
    }
    AgentRules { keys, git_signatures_only: !agent }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signing_alone_is_one_key_for_git_alone() {
        let signing = Signing { public: "ssh-ed25519 AAAA".into(), key: vec![0], commits: true, tags: false };
        let one = fingerprint(&[0]);
        let rules = |agent, keys: &[&str], signing| {
            let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
            let rules = rules(agent, &keys, signing);
            (rules.keys, rules.git_signatures_only)
        };
        assert_eq!(rules(false, &["a"], Some(&signing)), (vec![one.clone()], true));
        assert_eq!(rules(true, &[], Some(&signing)), (vec![], false));
        assert_eq!(rules(true, &["a"], Some(&signing)), (vec!["a".into(), one], false));
        assert_eq!(rules(true, &["a"], None), (vec!["a".into()], false));
    }
}

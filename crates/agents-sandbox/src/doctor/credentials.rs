use std::collections::BTreeMap;
use std::path::Path;

use sandbox_agents::{Profile, profiles};
use sandbox_config::{EnvFiles, SECRET_FILES, SecretDefinition, Settings, Value, env_files};
use sandbox_state::Layout;

use super::Finding;
use crate::secrets;

const CHECK: &str = "credentials";

/// What the guest's variables are set by.
struct Set {
    variables: BTreeMap<String, String>,
    secrets: BTreeMap<String, Value<SecretDefinition>>,
}

/// Whether anything brings each agent a credential, the one of this folder first: the others are for whoever
/// thinks of changing. What a login inside a sandbox left in its home is not looked at: for that the sandbox
/// would have to be started.
pub fn check(layout: &Layout, settings: &Settings, project: Option<&Path>) -> Vec<Finding> {
    let set = Set {
        variables: env_files(&layout.config, project)
            .map(|files: EnvFiles| files.merged())
            .unwrap_or_default(),
        secrets: secrets::files(layout, project).unwrap_or_default().secrets,
    };
    let own = settings.agent.value;
    let mut agents = profiles().to_vec();
    agents.sort_by_key(|agent| agent.name != own);
    let finding = |agent: &Profile| {
        let finding = one(layout, settings, agent, &set);
        // Hints are for the agent that is used.
        if agent.name == own { finding } else { Finding { hint: None, ..finding } }
    };
    agents.into_iter().map(finding).collect()
}

fn one(layout: &Layout, settings: &Settings, profile: &Profile, set: &Set) -> Finding {
    let Profile { name: agent, own, .. } = profile;
    let mapped = own.credentials.iter().find(|file| settings.home.contains_key(**file));
    if let Some(file) = mapped {
        return Finding::good(CHECK, format!("{agent}: ~/{file} is copied, as `home` says"));
    }
    if let Some(name) = own.credential_env.iter().find(|name| set.secrets.contains_key(**name)) {
        return Finding::good(CHECK, format!("{agent}: {name} is a secret, which the sandbox never sees"));
    }
    if let Some(name) = own.credential_env.iter().find(|name| set.variables.contains_key(**name)) {
        return Finding::good(CHECK, format!("{agent}: the variable {name} is set"));
    }
    let hint = format!(
        "log in once inside the sandbox, which keeps that in its home; nobody looks there, so after a login this \
         is no lack. Or define one of {} in {}, which keeps it out of the sandbox",
        own.credential_env.join(", "),
        layout.config.join(SECRET_FILES[0]).display()
    );
    Finding::note(CHECK, format!("nothing here brings {agent} a credential"), hint)
}

//! Which project and which sandbox a command means.

use std::ffi::OsString;

use sandbox_lifecycle::{Context, Project, Target};
use sandbox_model::{AgentName, CheckoutSlug, SandboxName, labels};

use crate::error::CommandError;

/// The checkout around the folder where the command was typed.
pub fn discover() -> Result<Project, CommandError> {
    let cwd = std::env::current_dir()
        .map_err(|error| CommandError::new(format!("the current folder cannot be told: {error}")))?;
    let checkout = sandbox_checkout::discover(&cwd)?;
    Ok(Project {
        checkout: checkout.checkout_slug,
        repo: Some(checkout.repo_slug),
        root: checkout.root,
        subdir: checkout.subdir,
        config_dir: checkout.project_dir,
    })
}

/// The checkout and agent of a sandbox that was made earlier, by its labels; by its name where the record
/// has none.
pub fn target_of(context: &Context<'_>, name: &SandboxName) -> Result<Target, CommandError> {
    let info = context.runtime.inspect(name)?;
    let label = |key: &str| info.as_ref().and_then(|info| info.spec.labels.get(key)).cloned();
    let labelled = label(labels::CHECKOUT).zip(label(labels::AGENT).and_then(|agent| agent.parse().ok()));
    let (checkout, agent) = labelled.or_else(|| split(name.as_str())).ok_or_else(|| {
        CommandError::new(format!("`{name}` is not the name of a project's sandbox"))
            .hint("`agents-sandbox list` shows the sandboxes there are")
    })?;
    Ok(Target { checkout: slug(checkout)?, agent })
}

/// `<checkout-slug>-<agent>`. Agents' names have dashes too: the longest that fits is the agent.
fn split(name: &str) -> Option<(String, AgentName)> {
    let fits = AgentName::ALL.into_iter().filter_map(|agent| {
        let checkout = name.strip_suffix(agent.as_str())?.strip_suffix('-')?;
        Some((checkout.to_string(), agent))
    });
    fits.min_by_key(|(checkout, _)| checkout.len())
}

fn slug(text: String) -> Result<CheckoutSlug, CommandError> {
    serde_json::from_value(text.into()).map_err(|error| CommandError::from_chain(&error))
}

/// Words for messages, in quotes where a shell would need them.
pub fn shown(words: &[OsString]) -> String {
    let quoted = words.iter().map(|word| {
        let word = word.to_string_lossy();
        let plain = !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || "-_./:=@%+,".contains(c));
        if plain { word.into_owned() } else { format!("{word:?}") }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart_at_the_agent() {
        for (name, checkout, agent) in [
            ("repo-4chyvv5c1qh507-opencode", "repo-4chyvv5c1qh507", AgentName::Opencode),
            ("repo-4chyvv5c1qh507-claude-code", "repo-4chyvv5c1qh507", AgentName::ClaudeCode),
            ("a-pi-pi", "a-pi", AgentName::Pi),
        ] {
            assert_eq!(split(name), Some((checkout.into(), agent)), "{name}");
        }
        assert_eq!(split("opencode"), None);
    }
}

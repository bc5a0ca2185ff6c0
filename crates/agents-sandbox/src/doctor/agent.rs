use sandbox_config::Settings;
use sandbox_lifecycle::{Project, Target, agent_versions};
use sandbox_state::Layout;

use super::Finding;
use crate::agent_version;

const CHECK: &str = "agent version";

/// What the image of this folder's sandbox holds, and whether there is a newer one; `None` before its first
/// start.
pub fn check(layout: &Layout, settings: &Settings, project: &Project) -> Option<Finding> {
    let agent = settings.agent.value;
    let target = Target { checkout: project.checkout.clone(), agent };
    let known = match agent_versions(layout, &target) {
        Ok(known) => known,
        Err(error) => {
            return Some(Finding::note(
                CHECK,
                format!("{agent}: {error}"),
                "mend the file or put it aside; `agents-sandbox volume list` shows the homes there are",
            ));
        }
    };
    let detail = format!("{agent}: {}", agent_version::words(&known)?);
    if agent_version::newer(&known).is_none() {
        return Some(Finding::good(CHECK, detail));
    }
    let hint = format!("`agents-sandbox build --agent {agent} --agent-version latest` takes it");
    Some(Finding::note(CHECK, detail, hint))
}

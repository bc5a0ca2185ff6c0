//! A folder whose identity changed: what it had under the former name is said once, for it stays there.

use sandbox_agents::{Profile, profiles};
use sandbox_lifecycle::{Project, Target};
use sandbox_model::CheckoutSlug;
use sandbox_state::{Layout, ProjectState, read_record};

use crate::app::App;

/// Nothing is said where there was nothing.
pub fn tell(app: &App, layout: &Layout, project: &Project, before: &CheckoutSlug) {
    let mut homes = Vec::new();
    for Profile { name: agent, .. } in profiles() {
        let state = layout.sandbox_state(before, *agent).state();
        // A former record that cannot be read is no reason not to begin; whoever looks at that sandbox is told.
        let record = read_record::<ProjectState>(&state).ok().flatten();
        if let Some(home) = record.and_then(|state| state.home_volume) {
            homes.push((*agent, home));
        }
    }
    if homes.is_empty() {
        return;
    }
    app.console.warning(&format!(
        "the sandboxes of this folder were named {before}-AGENT and are {}-AGENT from now on, because its .git \
         came, went, or names another remote; each has a new home",
        project.checkout
    ));
    for (agent, home) in homes {
        let old = Target { checkout: before.clone(), agent }.name();
        app.console.info(&format!(
            "the home of {old} stays: `agents-sandbox volume migrate --agent {agent} {home}` takes its files \
             over, `agents-sandbox sandbox remove {old}` removes that sandbox"
        ));
    }
}

//! Other sandboxes than the one that a command means, whose user may have meant them.

use sandbox_agents::profiles;
use sandbox_lifecycle::{Context, ListFilter, Row, Target};
use sandbox_model::AgentName;

use crate::app::App;

/// Where a project has no sandbox of this agent: names those of others, and the command line for each.
pub fn tell(app: &App, context: &Context<'_>, target: &Target, verb: &str) {
    for agent in agents_beside(context, target) {
        app.console.info(&format!("that of {agent} is there: `agents-sandbox {verb} --agent {agent}`"));
    }
}

/// Agents that have a sandbox of the same checkout. What cannot be looked at is no reason to fail.
fn agents_beside(context: &Context<'_>, target: &Target) -> Vec<AgentName> {
    let Ok(listing) = sandbox_lifecycle::list(context, &ListFilter::default()) else { return Vec::new() };
    let beside = |agent: &AgentName| {
        let name = Target { checkout: target.checkout.clone(), agent: *agent }.name();
        *agent != target.agent && listing.rows.iter().any(|row| row.name == name.as_str())
    };
    profiles().iter().map(|profile| profile.name).filter(beside).collect()
}

/// Command lines that end what runs or sleeps with the settings of before, where those are `concerned`: each sandbox of
/// this checkout by its agent, as `target` would be typed, and those of other checkouts, with `everywhere`, by their names.
pub fn stop_lines(
    context: &Context<'_>,
    target: &Target,
    everywhere: bool,
    concerned: impl Fn(&Row) -> bool,
) -> Vec<String> {
    let Ok(listing) = sandbox_lifecycle::list(context, &ListFilter::default()) else { return Vec::new() };
    let awake = listing.rows.into_iter().filter(|row| !row.status.is_at_rest() || row.saved_memory.is_some());
    let line = |name: String| {
        let here = profiles()
            .iter()
            .map(|profile| Target { checkout: target.checkout.clone(), agent: profile.name })
            .find(|here| here.name().as_str() == name);
        match here {
            Some(here) if here.agent == target.agent => Some("agents-sandbox stop --cold".into()),
            Some(here) => Some(format!("agents-sandbox stop --cold --agent {}", here.agent)),
            None => everywhere.then(|| format!("agents-sandbox stop --cold {name}")),
        }
    };
    awake
        .filter_map(|row| Some((line(row.name.clone())?, row)))
        .filter(|(_, row)| concerned(row))
        .map(|(line, _)| line)
        .collect()
}

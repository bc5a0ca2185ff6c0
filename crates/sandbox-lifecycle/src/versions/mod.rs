//! Which version of its agent a sandbox has, and whether there is a newer one.
//!
//! ```text
//! a start ─► what the image holds is recorded ─► npm is asked in the background ─► the answer is recorded
//! the next start ─► a newer one is offered, once ─► the image is built with it, or nothing changes
//! ```
//!
//! Nobody waits for npm, and a version that the user named stays.

mod ask;
mod image;
mod offer;

use std::time::Duration;

use sandbox_model::AgentName;
use sandbox_state::{
    AgentState, AgentVersion, Layout, NewestAgent, ProjectState, SandboxFiles, Stamp, VersionsRecord,
    read_record, write_record,
};

use crate::locks::boot_lock;
use crate::{Context, Declined, Result, Target, UpRequest, VersionChoice, VersionQuestion, sandbox_name};

pub use ask::{ask_newest, newest};
pub(crate) use image::record_image;

/// What is known of one agent's versions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentVersions {
    pub state: AgentState,
    /// The newest that npm named when it was last asked.
    pub newest: Option<String>,
}

/// Reads what is known. Asks nobody.
pub fn agent_versions(layout: &Layout, target: &Target) -> Result<AgentVersions> {
    let files = layout.sandbox_state(&target.checkout, target.agent);
    let ProjectState { image_digest, agent: mut state, .. } =
        read_record(&files.state())?.unwrap_or_default();
    // One that is gone says nothing of the one that took its place.
    state.image = state.image.filter(|image| Some(&image.digest) == image_digest.as_ref());
    Ok(AgentVersions { state, newest: asked(layout, target.agent).version })
}

/// What npm said. A record that cannot be read holds nothing that it would not say again.
fn asked(layout: &Layout, agent: AgentName) -> NewestAgent {
    let record = read_record::<VersionsRecord>(&layout.agent_versions()).ok().flatten().unwrap_or_default();
    record.agents.get(&agent).cloned().unwrap_or_default()
}

/// The version that an image is built with when none is typed: the pinned one, or one that the user took,
/// unless everything is built anew. `None` is the newest.
pub fn wanted_version(layout: &Layout, target: &Target, rebuild: bool) -> Result<Option<AgentVersion>> {
    let wanted = agent_versions(layout, target)?.state.wanted;
    Ok(wanted.filter(|wanted| wanted.pinned || !rebuild))
}

/// Records what an image was built with, so that the next one is built likewise.
pub(crate) fn remember_wanted(
    state: &mut ProjectState,
    files: &SandboxFiles,
    wanted: Option<&AgentVersion>,
) -> Result<()> {
    if state.agent.wanted.as_ref() != wanted {
        state.agent.wanted = wanted.cloned();
        write_record(&files.state(), state)?;
    }
    Ok(())
}

/// Offers a newer version of the agent where one is known, the user has not been told of it, and the
/// sandbox is about to start. What the user takes is what `request` then says.
///
/// `may_ask` is whether it may be a question. Fails with [`Declined`] where the user quits.
pub fn offer_newer(context: &Context<'_>, request: &mut UpRequest, may_ask: bool) -> Result<()> {
    let target = request.target();
    let known = agent_versions(&context.layout, &target)?;
    let pinned = request.agent_version.as_ref().is_some_and(|wanted| wanted.pinned);
    let Some(offer) = offer::offer(&known).filter(|_| !pinned && !request.rebuild) else { return Ok(()) };
    let info = context.runtime.inspect(&sandbox_name(context, &target)?)?;
    if info.as_ref().is_some_and(|info| !info.status.is_at_rest()) {
        return Ok(());
    }
    // Another image would end what sleeps: that is worth a line, and no question whose answer is "yes" by default.
    let may_ask = may_ask && info.is_none_or(|info| info.saved_memory.is_none());
    let question = VersionQuestion { agent: request.agent, installed: offer.installed, newest: offer.newest };
    let choice = if may_ask { context.reporter.decisions().version(&question) } else { VersionChoice::Tell };
    match choice {
        VersionChoice::Upgrade => {
            request.agent_version = Some(AgentVersion { version: offer.newest.to_string(), pinned: false });
        }
        VersionChoice::Quit => return Err(Declined::error()),
        VersionChoice::Keep => mark(context, request, |state| state.offered = Some(offer.newest.into()))?,
        VersionChoice::Tell => {
            if offer.is_told {
                return Ok(());
            }
            context.reporter.info(&format!(
                "{0} {1} is out; this sandbox has {2}; `agents-sandbox build --agent {0} --agent-version latest` takes it",
                request.agent, offer.newest, offer.installed
            ));
            mark(context, request, |state| state.told = Some(offer.newest.into()))?;
        }
    }
    Ok(())
}

fn mark(context: &Context<'_>, request: &UpRequest, change: impl FnOnce(&mut AgentState)) -> Result<()> {
    let target = request.target();
    let _lock = boot_lock(context, &target, request.verb)?;
    let files = context.layout.sandbox_state(&target.checkout, target.agent);
    let mut state = read_record::<ProjectState>(&files.state())?.unwrap_or_default();
    change(&mut state.agent);
    Ok(write_record(&files.state(), &state)?)
}

/// Whether npm should be asked again: the last time is `interval` ago, and what it says would be offered.
pub fn newest_is_due(layout: &Layout, target: &Target, interval: Duration) -> Result<bool> {
    let known = agent_versions(layout, target)?;
    let asked = asked(layout, target.agent).asked;
    // A clock that was set back asks again.
    let age = u64::try_from(Stamp::now().saturating_sub(asked)).unwrap_or(u64::MAX);
    Ok(offer::would_offer(&known.state) && age >= interval.as_secs())
}

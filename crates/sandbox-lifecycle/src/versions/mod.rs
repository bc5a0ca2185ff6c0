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
    /// What was wanted, what the image holds, and what the user was told.
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

/// A newer version, for a sandbox that is about to start.
struct Due {
    installed: String,
    newest: String,
    /// The user saw a line about it, without being asked.
    is_told: bool,
    /// Another image would end what sleeps: that is worth a line, and no question whose answer is "yes" by default.
    sleeps: bool,
}

fn due(context: &Context<'_>, request: &UpRequest) -> Result<Option<Due>> {
    let target = request.target();
    let known = agent_versions(&context.layout, &target)?;
    let pinned = request.agent_version.as_ref().is_some_and(|wanted| wanted.pinned);
    let Some(offer) = offer::offer(&known).filter(|_| !pinned && !request.rebuild) else { return Ok(None) };
    let info = context.runtime.inspect(&sandbox_name(context, &target)?)?;
    if info.as_ref().is_some_and(|info| !info.status.is_at_rest()) {
        return Ok(None);
    }
    let sleeps = info.is_some_and(|info| info.saved_memory.is_some());
    let (installed, newest) = (offer.installed.to_string(), offer.newest.to_string());
    Ok(Some(Due { installed, newest, is_told: offer.is_told, sleeps }))
}

/// Offers a newer version of the agent where one is known, the user has not been told of it, and the
/// sandbox is about to start. What the user takes is what `request` then says. No lock is held while a person is
/// asked; a sandbox that was started meanwhile keeps its version.
///
/// `may_ask` is whether it may be a question. Fails with [`Declined`] where the user quits.
pub fn offer_newer(context: &Context<'_>, request: &mut UpRequest, may_ask: bool) -> Result<()> {
    let Some(offer) = due(context, request)? else { return Ok(()) };
    let Due { installed, newest, is_told, sleeps } = offer;
    let question = VersionQuestion { agent: request.agent, installed: &installed, newest: &newest };
    let ask = may_ask && !sleeps;
    let choice = if ask { context.reporter.decisions().version(&question) } else { VersionChoice::Tell };
    match choice {
        VersionChoice::Upgrade => {
            if due(context, request)?.is_some_and(|now| now.installed == installed && !now.sleeps) {
                request.agent_version = Some(AgentVersion { version: newest, pinned: false });
            } else {
                let agent = request.agent;
                context.reporter.info(&format!(
                    "{agent} is not upgraded now: its sandbox is not as it was when you were asked"
                ));
            }
        }
        VersionChoice::Quit => return Err(Declined::error()),
        VersionChoice::Keep => mark(context, request, |state| state.offered = Some(newest))?,
        VersionChoice::Tell => {
            if is_told {
                return Ok(());
            }
            context.reporter.info(&format!(
                "{0} {newest} is out; this sandbox has {installed}; `agents-sandbox build --agent {0} --agent-version latest` takes it",
                request.agent
            ));
            mark(context, request, |state| state.told = Some(newest))?;
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

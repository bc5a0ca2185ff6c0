//! Which version of the agent is meant, and what becomes of newer ones.

use std::process::{Command, Stdio};
use std::time::Duration;

use sandbox_config::AgentUpdates;
use sandbox_lifecycle::{AgentVersions, Context, Target, Up, UpRequest, wanted_version};
use sandbox_state::AgentVersion;

use crate::app::App;
use crate::error::CommandError;
use crate::settings::Meant;

/// The word that takes back a pinned version.
const NEWEST: &str = "latest";
/// Someone who asks for the newest version waits for npm no longer than this; the build finds it otherwise.
const PATIENCE: Duration = Duration::from_secs(30);

/// The version that an image is built with, and whether everything is built anew.
///
/// A version that was typed is pinned: the next build has it too. `latest` ends that.
pub fn wanted(
    target: &Target,
    typed: Option<&str>,
    rebuild: bool,
) -> Result<(Option<AgentVersion>, bool), CommandError> {
    Ok(match typed {
        None => (wanted_version(&App::layout()?, target, rebuild)?, rebuild),
        Some(NEWEST) => match sandbox_lifecycle::newest(target.agent, PATIENCE) {
            Some(version) => (Some(AgentVersion { version, pinned: false }), rebuild),
            // The layer of an earlier build would be taken for the newest.
            None => (None, true),
        },
        Some(version) => (Some(AgentVersion { version: version.into(), pinned: true }), rebuild),
    })
}

/// Offers what npm named when it was last asked.
pub fn offer(context: &Context<'_>, meant: &Meant, request: &mut UpRequest) -> Result<(), CommandError> {
    match meant.settings.upgrade_agents.value {
        AgentUpdates::Off => Ok(()),
        mode => Ok(sandbox_lifecycle::offer_newer(context, request, mode == AgentUpdates::Prompt)?),
    }
}

/// Has npm asked in the background, where it is time to. What fails is tried again another day.
pub fn ask(context: &Context<'_>, meant: &Meant, up: &Up) {
    let settings = &meant.settings;
    let (target, interval) = (meant.target(), settings.upgrade_interval.value);
    if settings.upgrade_agents.value == AgentUpdates::Off
        || !sandbox_lifecycle::newest_is_due(&context.layout, &target, interval).unwrap_or_default()
    {
        return;
    }
    let mut command = Command::new(&context.program);
    // npm is not looked for below it.
    command.current_dir(&meant.project.root);
    command.args(["internal", "newest-agent", target.agent.as_str(), up.name.as_str()]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match command.spawn() {
        Ok(_) => context.reporter.verbose("asking npm for a newer version of the agent"),
        Err(error) => context.reporter.verbose(&format!("npm is not asked: {error}")),
    }
}

/// `1.2.3`, with what there is to say about it; `None` where nothing is known.
pub fn words(known: &AgentVersions) -> Option<String> {
    let state = &known.state;
    let pinned = state.wanted.as_ref().filter(|wanted| wanted.pinned).map(|wanted| &wanted.version);
    let image = state.image.as_ref();
    if image.is_some_and(|image| image.users_own) {
        return Some("the image's own".into());
    }
    let text = match (image.and_then(|image| image.version.as_ref()), pinned) {
        (Some(version), Some(pinned)) if version == pinned => format!("{version} (pinned)"),
        (Some(version), Some(pinned)) => format!("{version} (pinned: {pinned})"),
        (Some(version), None) => version.clone(),
        (None, Some(pinned)) => format!("{pinned} (pinned; not started yet)"),
        (None, None) => return None,
    };
    Some(newer(known).map_or_else(|| text.clone(), |newest| format!("{text}; {newest} is out")))
}

/// The newest version, where the image has an older one of ours.
pub fn newer(known: &AgentVersions) -> Option<&str> {
    let image = known.state.image.as_ref().filter(|image| !image.users_own)?;
    let newest = known.newest.as_deref()?;
    sandbox_agents::is_newer(newest, image.version.as_deref()?).then_some(newest)
}

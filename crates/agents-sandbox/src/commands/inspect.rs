//! `sandbox inspect`: everything known about one sandbox.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use sandbox_lifecycle::{AgentVersions, agent_versions};
use sandbox_model::{ByteSize, SandboxName, SandboxSpec};
use sandbox_runtime::RuntimeError;
use sandbox_state::Stamp;
use sandbox_wire::KeeperStatus;
use serde::Serialize;

use super::CommandResult;
use super::args::AgentArg;
use crate::app::App;
use crate::exit::Exit;
use crate::{project, settings};

/// Show everything about a sandbox, as JSON
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  agents-sandbox sandbox inspect                  the sandbox of the project in this folder
  agents-sandbox sandbox inspect NAME             any other, by the name that `list` shows")]
pub struct InspectArgs {
    /// Its name [default: the project's]
    #[arg(value_name = "NAME", conflicts_with = "agent")]
    pub name: Option<SandboxName>,

    #[command(flatten)]
    pub agent: AgentArg,
}

#[derive(Serialize)]
struct Inspection {
    name: SandboxName,
    status: String,
    problem: Option<String>,
    runtime: &'static str,
    created: String,
    updated: String,
    /// Bytes of its root disk, memory and logs, without home and image.
    disk_usage: Option<u64>,
    /// Bytes on disk of its saved memory, where it sleeps.
    saved_memory: Option<u64>,
    boot_id: Option<String>,
    keeper: Option<KeeperStatus>,
    agent_version: Version,
    logs: BTreeMap<&'static str, PathBuf>,
    spec: SandboxSpec,
}

#[derive(Serialize)]
struct Version {
    /// What the image holds; unknown before its first start, and where the image brings its own.
    installed: Option<String>,
    /// The image's own layers brought the agent.
    users_own: bool,
    /// What `--agent-version` asked for.
    pinned: Option<String>,
    /// What npm named when it was last asked.
    newest: Option<String>,
}

impl From<AgentVersions> for Version {
    fn from(AgentVersions { state, newest }: AgentVersions) -> Self {
        let pinned = state.wanted.filter(|wanted| wanted.pinned).map(|wanted| wanted.version);
        let (users_own, installed) =
            state.image.map_or((false, None), |image| (image.users_own, image.version));
        Self { installed, users_own, pinned, newest }
    }
}

pub fn run(app: &App, args: &InspectArgs) -> CommandResult {
    let context = app.context()?;
    let target = match &args.name {
        Some(name) => project::target_of(&context, name)?,
        None => settings::target(app, &args.agent)?,
    };
    let name = match &args.name {
        Some(name) => name.clone(),
        None => sandbox_lifecycle::sandbox_name(&context, &target)?,
    };
    let info = context.runtime.inspect(&name)?.ok_or(RuntimeError::NoSuchSandbox(name.clone()))?;
    let keeper =
        if info.status.is_at_rest() { None } else { sandbox_lifecycle::keeper_status(&context, &target) };
    let logs = sandbox_lifecycle::logs(&context, &target)?;
    app.out.json(&Inspection {
        status: info.status.to_string(),
        problem: info.problem,
        runtime: context.runtime.name_for(&name)?,
        created: Stamp::for_json(info.created),
        updated: Stamp::for_json(info.updated),
        disk_usage: context.runtime.disk_usage(&name).ok().map(ByteSize::bytes),
        saved_memory: info.saved_memory.map(ByteSize::bytes),
        boot_id: context.runtime.boot_id(&name)?,
        keeper,
        agent_version: agent_versions(&context.layout, &target)?.into(),
        logs: logs.into_iter().map(|log| (log.name, log.path)).collect(),
        spec: info.spec,
        name,
    })?;
    Ok(Exit::SUCCESS)
}

//! What is meant: settings of all layers, and what was typed on top.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::thread::available_parallelism;
use std::time::Duration;

use sandbox_lifecycle::{ImageSettings, SandboxSettings, Target, UpRequest};
use sandbox_model::{AgentName, ByteSize, NetworkPolicy, Resources};

use crate::commands::args::{AgentArg, PrepareArgs};
use crate::error::CommandError;
use crate::project;

/// The wish that `run`, `shell` or `exec` stands for, in the folder where it was typed.
pub fn up_request(args: &PrepareArgs, verb: &'static str) -> Result<UpRequest, CommandError> {
    let cpus = match args.resources.cpus {
        None | Some(0) => available_parallelism().map_or(1, NonZero::get),
        Some(count) => usize::from(count),
    };
    Ok(UpRequest {
        project: project::discover()?,
        agent: args.agent.agent.unwrap_or(AgentName::Opencode),
        settings: SandboxSettings {
            resources: Resources {
                cpus: u32::try_from(cpus).unwrap_or(1),
                memory: args.resources.memory.unwrap_or(ByteSize::gib(4)),
            },
            disk_size: args.resources.disk_size,
            tmp_size: args.resources.tmp_size.unwrap_or(ByteSize::gib(2)),
            workspace_quota: args.resources.workspace_quota.unwrap_or(ByteSize::gib(16)),
            network: NetworkPolicy {
                profile: args.network.network.unwrap_or_default(),
                dns_servers: args.network.dns.clone(),
                ..NetworkPolicy::default()
            },
            env: BTreeMap::new(),
            auto_stop_timeout: Duration::from_secs(10),
            auto_stop_on_active_sessions: false,
            auto_stop_max_session_retries: 10,
        },
        image: ImageSettings::default(),
        rebuild: args.image.rebuild,
        agent_version: args.image.agent_version.clone(),
        verb,
    })
}

/// The sandbox that a command without a name means: this folder's, of the agent that was typed or set.
pub fn target(agent: &AgentArg) -> Result<Target, CommandError> {
    let project = project::discover()?;
    Ok(Target { checkout: project.checkout, agent: agent.agent.unwrap_or(AgentName::Opencode) })
}

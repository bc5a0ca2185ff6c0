//! The keeper, as the use cases speak with it.

use std::process::Command;

use sandbox_keeper::{ClientError, ClientInfo, KeeperConfig, LeaseOutcome};
use sandbox_model::{SandboxName, holding};
use sandbox_state::{KeeperFiles, SandboxFiles};

use crate::{Context, LifecycleError, Result, UpRequest};

/// The words that make this program a keeper.
const WORDS: [&str; 2] = ["internal", "keeper"];

/// Attaches, where there is a keeper.
pub fn lease(context: &Context<'_>, request: &UpRequest, files: &KeeperFiles) -> Result<LeaseOutcome> {
    sandbox_keeper::lease(files, client(context, request)).map_err(|error| failed(request, &error))
}

/// Attaches, starting a keeper where there is none. The caller holds the boot lock, and the sandbox runs.
pub fn lease_or_start(
    context: &Context<'_>,
    request: &UpRequest,
    name: &SandboxName,
    files: &SandboxFiles,
) -> Result<LeaseOutcome> {
    let settings = &request.settings;
    let config = KeeperConfig {
        sandbox: name.clone(),
        dir: files.dir.clone(),
        sleep: settings.sleep,
        auto_stop_timeout: settings.auto_stop_timeout,
        auto_stop_on_active_sessions: settings.auto_stop_on_active_sessions,
        auto_stop_max_session_retries: settings.auto_stop_max_session_retries,
        timing: sandbox_keeper::Timing::default(),
    };
    let keeper = files.keeper();
    let mut command = Command::new(&context.program);
    command.args(WORDS);
    let variables: Vec<_> = std::env::vars_os().collect();
    let pairs = variables.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()));
    for name in holding(&request.secret_values, pairs) {
        command.env_remove(name);
    }
    let mut start = || sandbox_keeper::spawn(&mut command, &config, &keeper);
    sandbox_keeper::lease_or_start(&keeper, &client(context, request), &mut start)
        .map_err(|error| failed(request, &error))
}

fn client(context: &Context<'_>, request: &UpRequest) -> ClientInfo {
    ClientInfo {
        pid: std::process::id(),
        verb: request.verb.into(),
        version: context.version.into(),
        keep_secs: request.keep.map(|keep| keep.as_secs()),
        ssh_agent: request.settings.ssh_agent.clone(),
    }
}

fn failed(request: &UpRequest, error: &ClientError) -> LifecycleError {
    let problem = match error {
        ClientError::NotStarted { problem, log } if !log.is_empty() => format!("{problem}\n{log}"),
        error => error.to_string(),
    };
    LifecycleError::Keeper { name: request.target().name(), problem }
}

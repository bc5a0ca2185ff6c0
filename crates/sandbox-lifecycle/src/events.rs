use std::time::Duration;

use sandbox_agents::{Events, Profile, Server};
use sandbox_model::SandboxName;
use sandbox_runtime::Runtime;

use crate::{Daemon, LifecycleError, Result};

/// For the head of the answer; the events come when they come.
const PATIENCE: Duration = Duration::from_secs(10);

/// Begins to listen to what the agent's server says of its sessions.
pub fn events(
    runtime: &dyn Runtime,
    sandbox: &SandboxName,
    profile: &'static Profile,
    daemon: &Daemon,
) -> Result<Events> {
    let agent = profile.name;
    let Some(of_agent) = &profile.daemon else { return Err(LifecycleError::NoServer { agent }) };
    let dial = || runtime.dial(sandbox, daemon.port);
    let server = Server::new(of_agent, Box::new(dial), &daemon.password, PATIENCE);
    Events::open(&server).map_err(|error| LifecycleError::Server { agent, problem: error.to_string() })
}

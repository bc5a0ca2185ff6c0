use std::sync::Arc;
use std::time::Duration;

use sandbox_agents::{Server, activity, profile};
use sandbox_model::{Activity, ActivityError, GUEST_WORKSPACE, NoSessions, SandboxName, Session};
use sandbox_runtime::Runtime;
use sandbox_state::{DaemonRecord, SandboxFiles, read_record};

use crate::Target;

/// For one request to the agent's server. Emulated, an answer that takes a tenth of a second natively has
/// been seen to take one.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the sessions of a sandbox's agent do, as its keeper asks: whatever server there is at that moment.
///
/// Without a server of this boot nothing works, so nothing holds the sandbox.
pub fn agent_activity(
    runtime: Arc<dyn Runtime>,
    sandbox: &SandboxName,
    files: SandboxFiles,
) -> Box<dyn Activity> {
    let target = Target::from_name(sandbox);
    let daemon = target.and_then(|target| profile(target.agent).ok()?.daemon.as_ref());
    match daemon {
        Some(daemon) if daemon.session_status && runtime.capabilities().dial => {
            Box::new(RecordedServer { runtime, sandbox: sandbox.clone(), files, daemon })
        }
        _ => Box::new(NoSessions),
    }
}

struct RecordedServer {
    runtime: Arc<dyn Runtime>,
    sandbox: SandboxName,
    files: SandboxFiles,
    daemon: &'static sandbox_agents::DaemonProfile,
}

impl Activity for RecordedServer {
    fn poll(&mut self) -> Result<Vec<Session>, ActivityError> {
        let record = read_record::<DaemonRecord>(&self.files.daemon())
            .map_err(|error| ActivityError(error.to_string()))?;
        let unknown = |error: sandbox_runtime::RuntimeError| ActivityError(error.to_string());
        let boot_id = self.runtime.boot_id(&self.sandbox).map_err(unknown)?;
        // Whoever wakes the sandbox has not always to do with the server, which goes on all the same.
        let guest_boot = self.runtime.guest_boot(&self.sandbox).map_err(unknown)?;
        let (Some(record), Some(boot_id), Some(guest_boot)) = (record, boot_id, guest_boot) else {
            return Ok(Vec::new());
        };
        if !record.is_of(&boot_id, &guest_boot) {
            return Ok(Vec::new());
        }
        let dial = || self.runtime.dial(&self.sandbox, record.port);
        let server = Server::new(self.daemon, Box::new(dial), &record.password, PATIENCE);
        activity(server, GUEST_WORKSPACE).poll()
    }
}

//! Whether anyone uses a running sandbox: a client, or an agent that works on without one.

use std::time::{Duration, Instant};

use sandbox_model::SandboxName;

use crate::{Context, Result, Target, keeper_status};

/// A keeper whose last client has just left asks the agent before it knows.
const ASKING: Duration = Duration::from_secs(3);

/// Who or what uses a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InUse {
    /// In the keeper's words.
    pub reason: String,
    /// Process ids of its clients.
    pub clients: Vec<u32>,
}

impl InUse {
    /// Whether a yes to cutting these off is one to cutting off whoever uses it now: nobody came since.
    pub fn covers(&self, now: &Self) -> bool {
        now.clients.iter().all(|pid| self.clients.contains(pid))
    }
}

/// Another word for every boot of a sandbox, and for every rest.
pub fn life(context: &Context<'_>, name: &SandboxName) -> Result<String> {
    if let Some(boot) = context.runtime.boot_id(name)? {
        return Ok(boot);
    }
    let since = context.runtime.inspect(name)?.map(|info| info.updated).unwrap_or_default();
    Ok(format!("at rest since {since}"))
}

/// Who or what uses it; `None` where it would stop by itself, or has no keeper.
pub fn held(context: &Context<'_>, target: &Target) -> Option<InUse> {
    let begin = Instant::now();
    loop {
        let status = keeper_status(context, target)?;
        if status.clients.is_empty() && status.stops_in_secs.is_some() {
            return None;
        }
        if !status.clients.is_empty() || begin.elapsed() > ASKING {
            let clients = status.clients.iter().map(|client| client.pid).collect();
            return Some(InUse { reason: status.reason, clients });
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

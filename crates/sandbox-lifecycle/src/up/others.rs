//! Whether anyone uses a running sandbox: a client, or an agent that works on without one.

use std::time::{Duration, Instant};

use crate::{Context, Target, keeper_status};

/// A keeper whose last client has just left asks the agent before it knows.
const ASKING: Duration = Duration::from_secs(3);

/// Who or what uses it, in the keeper's words; `None` where it would stop by itself, or has no keeper.
pub fn held(context: &Context<'_>, target: &Target) -> Option<String> {
    let begin = Instant::now();
    loop {
        let status = keeper_status(context, target)?;
        if status.clients.is_empty() && status.stops_in_secs.is_some() {
            return None;
        }
        if !status.clients.is_empty() || begin.elapsed() > ASKING {
            return Some(status.reason);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

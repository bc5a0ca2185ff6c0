use sandbox_model::Status;
use sandbox_runtime::Runtime;
use sandbox_state::Layout;

use super::Finding;
use crate::wiring::drivers::microsandbox_as_it_is;

const CHECK: &str = "microsandbox";

/// Whether microsandbox tells what it knows of the sandboxes that are on it; `None` where there are none.
pub fn check(layout: &Layout) -> Option<Finding> {
    let list = microsandbox_as_it_is(layout).list().ok()?;
    let count = list.sandboxes.len();
    let unknown = list.sandboxes.iter().find(|info| matches!(info.status, Status::Unknown(_)));
    Some(match unknown {
        None if count == 0 => return None,
        None => Finding::good(CHECK, format!("it has {count} of the sandboxes")),
        Some(info) => Finding::note(
            CHECK,
            info.problem.as_deref().unwrap_or("it does not tell which sandboxes run"),
            "sandboxes on it may neither start nor stop; `agents-sandbox kill` powers one off all the same",
        ),
    })
}

//! Saved memory that has to go.

use std::time::Duration;

use sandbox_model::{ByteSize, SandboxName};
use sandbox_runtime::RuntimeError;
use sandbox_state::Stamp;

use crate::{Context, Result};

/// Drops the saved memory of a sandbox, and says so. `reason` is a sentence without its end.
pub(crate) fn drop_saved(context: &Context<'_>, name: &SandboxName, reason: &str) -> Result<()> {
    match context.runtime.forget_memory(name) {
        Ok(Some(size)) => {
            let text = format!("the saved memory of {name} ({}) is dropped: {reason}", size.human());
            context.reporter.info(&text);
            Ok(())
        }
        Ok(None) | Err(RuntimeError::NoSuchSandbox(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Drops what was saved longer ago than `keep`, and says so. Returns the bytes that gave back. A sandbox that
/// is busy keeps its memory.
pub fn forget_old_memory(context: &Context<'_>, keep: Duration) -> Result<ByteSize> {
    let oldest = oldest_kept(Stamp::now(), keep);
    let mut freed = 0;
    for info in context.runtime.list()?.sandboxes {
        if info.saved_memory.is_none() || info.updated >= oldest {
            continue;
        }
        let name = &info.spec.name;
        // What was saved since the list was made is kept.
        if let Ok(Some(size)) = context.runtime.forget_memory_before(name, oldest) {
            freed += size.bytes();
            context.reporter.verbose(&format!("the memory of {name} was saved long ago and is dropped"));
        }
    }
    Ok(ByteSize::from_bytes(freed))
}

/// What was saved before that is old.
fn oldest_kept(now: i64, keep: Duration) -> i64 {
    now.saturating_sub(i64::try_from(keep.as_secs()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_saved_longer_ago_than_it_is_kept_is_old() {
        let keep = Duration::from_secs(100);
        assert_eq!(oldest_kept(1000, keep), 900);
        assert!(oldest_kept(1000, Duration::MAX) < 0);
    }
}

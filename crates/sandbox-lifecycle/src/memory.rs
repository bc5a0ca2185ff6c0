//! Saved memory that has to go.

use sandbox_model::SandboxName;
use sandbox_runtime::RuntimeError;

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

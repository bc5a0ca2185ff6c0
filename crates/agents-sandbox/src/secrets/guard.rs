//! What keeps values that are in this process's memory to it.

use rustix::process::{DumpableBehavior, set_dumpable_behavior};

use crate::error::CommandError;

/// From here to its end this process leaves no core file, and no other process of its user reads its memory or
/// its environment.
///
/// Its files in `/proc` belong to root from now on. It may still follow its own descriptors there; the programs
/// that it starts are as they would be without this.
pub fn close_memory() -> Result<(), CommandError> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(|error| {
        CommandError::new(format!("this process's memory cannot be closed to others: {error}"))
    })
}

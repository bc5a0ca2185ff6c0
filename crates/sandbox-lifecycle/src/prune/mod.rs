//! Taking back what nobody uses any more.
//!
//! ```text
//! snapshot ─► plan (pure) ─► the user's yes ─► carry_out ─► Report
//! ```
//!
//! One snapshot decides everything. What the plan names is looked at once more just before it goes, under
//! the lock of whoever could use it, and spared when it was used meanwhile.

mod auto;
mod carry_out;
mod plan;
mod reasons;
mod report;
mod snapshot;
#[cfg(test)]
mod tests;

pub use auto::{AUTO_PRUNE_AGE, AutoPrune, auto_prune};
pub use carry_out::carry_out;
pub use plan::{Kinds, Plan, Rules, plan};
pub use reasons::Reasons;
pub use report::{Failure, Report, Spared};
pub(crate) use snapshot::is_task;
pub use snapshot::{
    SeenImage, SeenLeftover, SeenSandbox, SeenUnnamed, SeenVolume, Snapshot, StateRecord, snapshot,
};

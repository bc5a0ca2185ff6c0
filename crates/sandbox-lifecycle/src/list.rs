use std::collections::BTreeMap;

use sandbox_model::Status;
use sandbox_runtime::BrokenRecord;
use sandbox_wire::KeeperStatus;

use crate::{Context, Result};

/// Which sandboxes to list. All conditions must hold.
#[derive(Debug, Clone, Default)]
pub struct ListFilter {
    /// `key=value` labels; a key without a dot is short for one of ours (`project`, `agent`, …).
    pub labels: Vec<(String, String)>,
    /// Exactly `running`. Wins over `stopped`.
    pub running: bool,
    /// Exactly `stopped`.
    pub stopped: bool,
    /// After all other conditions; 0 is no limit.
    pub limit: usize,
    /// Ask the keepers of running sandboxes what they wait for.
    pub ask_keepers: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    pub name: String,
    pub image: String,
    pub status: Status,
    /// Seconds since 1970.
    pub created: i64,
    pub updated: i64,
    pub labels: BTreeMap<String, String>,
    /// Why it is crashed, where that is known.
    pub problem: Option<String>,
    /// What holds it, where it runs and was asked.
    pub keeper: Option<KeeperStatus>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Listing {
    /// Newest first.
    pub rows: Vec<Row>,
    /// Records that could not be read.
    pub broken: Vec<BrokenRecord>,
}

/// The sandboxes of this user.
pub fn list(context: &Context<'_>, filter: &ListFilter) -> Result<Listing> {
    let _ = filter;
    let list = context.runtime.list()?;
    Ok(Listing { rows: Vec::new(), broken: list.broken })
}

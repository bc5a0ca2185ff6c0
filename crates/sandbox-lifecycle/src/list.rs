use std::collections::BTreeMap;
use std::path::PathBuf;

use sandbox_model::{ByteSize, Status, labels};
use sandbox_runtime::{BrokenRecord, SandboxInfo};
use sandbox_wire::KeeperStatus;

use crate::prune::is_task;
use crate::{Context, Result, Target, keeper_status};

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

impl ListFilter {
    /// A record that cannot be read cannot be asked whether a condition holds.
    const fn selects(&self) -> bool {
        !self.labels.is_empty() || self.running || self.stopped
    }
}

/// One sandbox, as a table or a program reads it.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// As the runtime has it: one of an earlier version has a longer one.
    pub name: String,
    /// The reference that it was made from.
    pub image: String,
    /// As it was when the runtime was asked.
    pub status: Status,
    /// Seconds since 1970.
    pub created: i64,
    /// When it last changed, started or stopped, in seconds since 1970.
    pub updated: i64,
    /// Ours and others', with their whole keys.
    pub labels: BTreeMap<String, String>,
    /// The checkout on the host.
    pub checkout: PathBuf,
    /// That folder is not there any more.
    pub checkout_gone: bool,
    /// Why it is crashed, where that is known.
    pub problem: Option<String>,
    /// Bytes on disk of its saved memory, where it sleeps.
    pub saved_memory: Option<ByteSize>,
    /// What holds it, where it runs and was asked.
    pub keeper: Option<KeeperStatus>,
}

/// What there is, and what cannot be said of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Listing {
    /// Newest first.
    pub rows: Vec<Row>,
    /// Records that could not be read.
    pub broken: Vec<BrokenRecord>,
}

/// The sandboxes of this user's checkouts, without those that serve one task. A broken record is a row of its own and fails nothing.
pub fn list(context: &Context<'_>, filter: &ListFilter) -> Result<Listing> {
    let mut list = context.runtime.list()?;
    if filter.selects() {
        list.broken.clear();
    }
    let mut sandboxes: Vec<SandboxInfo> =
        list.sandboxes.into_iter().filter(|info| matches(filter, info)).collect();
    sandboxes.sort_by(|a, b| b.created.cmp(&a.created).then_with(|| a.spec.name.cmp(&b.spec.name)));
    if filter.limit > 0 {
        sandboxes.truncate(filter.limit);
    }
    let rows = sandboxes.into_iter().map(|info| row(context, info, filter.ask_keepers)).collect();
    Ok(Listing { rows, broken: list.broken })
}

fn matches(filter: &ListFilter, info: &SandboxInfo) -> bool {
    let status = match (filter.running, filter.stopped) {
        (true, _) => info.status == Status::Running,
        (false, true) => info.status == Status::Stopped,
        (false, false) => true,
    };
    !is_task(&info.spec) && status && filter.labels.iter().all(|(key, value)| label(info, key) == Some(value))
}

/// A key without a dot is one of ours.
fn label<'a>(info: &'a SandboxInfo, key: &str) -> Option<&'a String> {
    let labels = &info.spec.labels;
    if key.contains('.') { labels.get(key) } else { labels.get(&format!("{}{key}", labels::PREFIX)) }
}

fn row(context: &Context<'_>, info: SandboxInfo, ask_keepers: bool) -> Row {
    let asked = ask_keepers && info.status == Status::Running;
    let target = Target::of(&info.spec).filter(|_| asked);
    Row {
        keeper: target.and_then(|target| keeper_status(context, &target)),
        name: info.spec.name.to_string(),
        image: info.spec.image.to_string(),
        status: info.status,
        created: info.created,
        updated: info.updated,
        labels: info.spec.labels,
        // What cannot be looked at may well be there.
        checkout_gone: matches!(info.spec.workspace.source.try_exists(), Ok(false)),
        checkout: info.spec.workspace.source,
        problem: info.problem,
        saved_memory: info.saved_memory,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::up::spec::tests::example;

    fn info(status: Status) -> SandboxInfo {
        SandboxInfo {
            spec: example(),
            status,
            created: 1,
            updated: 1,
            problem: None,
            saved_memory: None,
            added_ports: Vec::new(),
        }
    }

    fn by_label(key: &str, value: &str) -> bool {
        let filter = ListFilter { labels: vec![(key.into(), value.into())], ..ListFilter::default() };
        matches(&filter, &info(Status::Running))
    }

    #[test]
    fn labels_have_short_and_long_names() {
        assert!(by_label("agent", "opencode"));
        assert!(by_label("org.agents-sandbox.agent", "opencode"));
        assert!(!by_label("agent", "pi"));
        assert!(!by_label("project", "opencode"));
    }

    #[test]
    fn a_tasks_sandbox_is_not_listed() {
        let mut task = info(Status::Running);
        assert!(matches(&ListFilter::default(), &task));
        task.spec.labels.insert(labels::TASK.into(), "volume-edit".into());
        assert!(!matches(&ListFilter::default(), &task));
    }

    #[test]
    fn running_wins_over_stopped_and_both_are_exact() {
        let shown = |running, stopped, status| {
            matches(&ListFilter { running, stopped, ..ListFilter::default() }, &info(status))
        };
        assert!(shown(true, true, Status::Running));
        assert!(!shown(true, true, Status::Stopped));
        assert!(shown(false, true, Status::Stopped));
        assert!(!shown(false, true, Status::Crashed));
        assert!(!shown(true, false, Status::Starting));
        assert!(shown(false, false, Status::Crashed));
    }
}

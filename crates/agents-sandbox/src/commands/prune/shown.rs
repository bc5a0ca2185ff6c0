//! Plans and reports, as people and programs read them.

use sandbox_lifecycle::prune::{Plan, Report};
use sandbox_model::ByteSize;
use serde::Serialize;

use crate::report::{Column, Table, Tone};

const COLUMNS: [Column; 3] = [
    Column { heading: "KIND", whole: true },
    Column { heading: "NAME", whole: false },
    Column { heading: "SIZE", whole: true },
];

/// What would go.
pub fn table(plan: &Plan) -> Table {
    let mut table = Table::new(&COLUMNS);
    let mut row = |kind: &str, name: String, size: ByteSize| {
        table.row([kind.into(), name, size.human()].map(|text| (text, Tone::Plain)));
    };
    for sandbox in &plan.sandboxes {
        row(if sandbox.task { "task" } else { "sandbox" }, sandbox.name.to_string(), sandbox.size);
    }
    for sandbox in &plan.memories {
        row("saved memory", sandbox.name.to_string(), sandbox.memory.unwrap_or_default());
    }
    for volume in &plan.volumes {
        row("home volume", volume.name.to_string(), volume.size);
    }
    for leftover in &plan.leftovers {
        row("unfinished", leftover.path.display().to_string(), leftover.size);
    }
    for image in &plan.images {
        row("image", image.reference.to_string(), image.size);
    }
    for image in &plan.unnamed {
        row("engine image", image.id.short().to_string(), image.size);
    }
    table
}

pub fn counts_of(plan: &Plan) -> String {
    counts([
        plan.sandboxes.len(),
        plan.memories.len(),
        plan.volumes.len(),
        plan.leftovers.len(),
        plan.images.len(),
        plan.unnamed.len(),
    ])
}

pub fn counts_of_report(report: &Report) -> String {
    counts([
        report.sandboxes.len(),
        report.memories.len(),
        report.volumes.len(),
        report.leftovers.len(),
        report.images.len(),
        report.unnamed.len(),
    ])
}

fn counts(numbers: [usize; 6]) -> String {
    let names = [
        ("sandbox", "sandboxes"),
        ("saved memory", "saved memories"),
        ("home volume", "home volumes"),
        ("unfinished home volume", "unfinished home volumes"),
        ("image", "images"),
        ("engine image", "engine images"),
    ];
    let said: Vec<String> = numbers
        .into_iter()
        .zip(names)
        .filter(|(number, _)| *number > 0)
        .map(|(number, (one, many))| format!("{number} {}", if number == 1 { one } else { many }))
        .collect();
    if said.is_empty() { "nothing".into() } else { said.join(", ") }
}

/// `--format json`, the same for what would go and for what went.
#[derive(Serialize)]
pub struct Document {
    dry_run: bool,
    sandboxes: Vec<String>,
    /// Of sandboxes that stay, by their names.
    saved_memories: Vec<String>,
    volumes: Vec<String>,
    unfinished: Vec<String>,
    images: Vec<String>,
    engine_images: Vec<String>,
    /// On disk; of what would go, or of what went.
    bytes: u64,
    spared: Vec<Left>,
    failures: Vec<Left>,
}

#[derive(Serialize)]
struct Left {
    what: String,
    why: String,
}

impl Document {
    pub fn of_plan(plan: &Plan) -> Self {
        Self {
            dry_run: true,
            sandboxes: plan.sandboxes.iter().map(|item| item.name.to_string()).collect(),
            saved_memories: plan.memories.iter().map(|item| item.name.to_string()).collect(),
            volumes: plan.volumes.iter().map(|item| item.name.to_string()).collect(),
            unfinished: plan.leftovers.iter().map(|item| item.path.display().to_string()).collect(),
            images: plan.images.iter().map(|item| item.reference.to_string()).collect(),
            engine_images: plan.unnamed.iter().map(|item| item.id.to_string()).collect(),
            bytes: plan.size().bytes(),
            spared: Vec::new(),
            failures: Vec::new(),
        }
    }

    pub fn of_report(report: &Report, dry_run: bool) -> Self {
        let spared = report.spared.iter();
        let failures = report.failures.iter();
        Self {
            dry_run,
            sandboxes: report.sandboxes.clone(),
            saved_memories: report.memories.clone(),
            volumes: report.volumes.clone(),
            unfinished: report.leftovers.clone(),
            images: report.images.clone(),
            engine_images: report.unnamed.clone(),
            bytes: report.freed.bytes(),
            spared: spared.map(|item| Left { what: item.what.clone(), why: item.why.clone() }).collect(),
            failures: failures
                .map(|item| Left { what: item.what.clone(), why: item.problem.clone() })
                .collect(),
        }
    }
}

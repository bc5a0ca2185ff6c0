//! `list`: all sandboxes of this user.

use std::collections::BTreeMap;
use std::path::Path;

use clap::{Args, ValueEnum};
use sandbox_lifecycle::{ListFilter, Listing};
use sandbox_model::{ByteSize, Status};
use sandbox_state::Stamp;
use serde::Serialize;

use super::CommandResult;
use crate::app::App;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::report::{Column, Table, Tone, plain, status_cell};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Json,
}

/// List all sandboxes
#[derive(Debug, Clone, Args)]
#[command(
    visible_alias = "ls",
    after_help = "\
Examples:
  agents-sandbox list                             every sandbox, newest first
  agents-sandbox list --running
  agents-sandbox list --label project=my-repo-3f…  those of one repository
  agents-sandbox list --names --stopped           names only, one per line, for scripts
  agents-sandbox list --format json"
)]
pub struct ListArgs {
    /// Only those with this label; repeat it to ask for several. project, checkout, agent and image are
    /// short for our own labels
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_label)]
    pub label: Vec<(String, String)>,

    /// At most so many; 0 is all
    #[arg(long, value_name = "COUNT", value_parser = super::values::count, allow_hyphen_values = true, default_value_t = 0, hide_default_value = true)]
    pub limit: usize,

    /// Only running ones; wins over --stopped
    #[arg(long)]
    pub running: bool,

    /// Only stopped ones
    #[arg(long)]
    pub stopped: bool,

    /// Names only, one per line
    #[arg(long, conflicts_with = "format")]
    pub names: bool,

    /// Another form than the table
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<Format>,
}

fn parse_label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.into(), value.into())),
        _ => Err("a label is written KEY=VALUE, for example project=my-repo".into()),
    }
}

const COLUMNS: [Column; 4] = [
    Column { heading: "NAME", whole: false },
    Column { heading: "IMAGE", whole: false },
    Column { heading: "STATUS", whole: true },
    Column { heading: "CREATED", whole: true },
];

/// What `detail` says of a sandbox that sleeps.
const MEMORY_SAVED: &str = "memory saved";

/// One sandbox in `--format json`.
#[derive(Serialize)]
struct Entry<'a> {
    name: &'a str,
    status: &'a str,
    image: Option<&'a str>,
    created: Option<String>,
    updated: Option<String>,
    labels: Option<&'a BTreeMap<String, String>>,
    checkout: Option<&'a Path>,
    checkout_gone: Option<bool>,
    /// What holds it, what is wrong with it, or that its memory is saved.
    detail: Option<&'a str>,
    /// Bytes on disk of its saved memory.
    saved_memory: Option<u64>,
}

pub fn run(app: &App, args: &ListArgs) -> CommandResult {
    let context = app.context()?;
    let filter = ListFilter {
        labels: args.label.clone(),
        running: args.running,
        stopped: args.stopped,
        limit: args.limit,
        ask_keepers: args.format.is_some(),
    };
    let listing = sandbox_lifecycle::list(&context, &filter)?;
    if args.names {
        names(app, &listing)?;
    } else if args.format.is_some() {
        app.out.json(&entries(&listing))?;
    } else if listing.rows.is_empty() && listing.broken.is_empty() {
        let all = args.label.is_empty() && !args.running && !args.stopped;
        app.console.info(if all { "there are no sandboxes" } else { "no sandbox is of that kind" });
    } else {
        app.out.line(&table(&listing).render())?;
        // The status has no word for it, and all of it is worth one.
        for (row, size) in listing.rows.iter().filter_map(|row| Some((row, row.saved_memory?))) {
            app.console.info(&format!(
                "{}: {MEMORY_SAVED} ({}), the next run goes on from it",
                row.name,
                size.human()
            ));
        }
    }
    for row in listing.rows.iter().filter(|row| row.checkout_gone) {
        let (name, checkout) = (&row.name, row.checkout.display());
        app.console.warning(&format!(
            "{name}: its checkout {checkout} is gone; `agents-sandbox sandbox remove {name}` removes it"
        ));
    }
    for (problem, names) in unknown(&listing) {
        app.console.warning(&format!("the status of {} is unknown: {problem}", names.join(", ")));
    }
    for broken in &listing.broken {
        app.console.warning(&format!("{}: {}", broken.path.display(), broken.problem));
    }
    Ok(Exit::SUCCESS)
}

/// Sandboxes whose runtime does not tell their status, by the reason.
fn unknown(listing: &Listing) -> BTreeMap<&str, Vec<&str>> {
    let mut reasons = BTreeMap::<_, Vec<_>>::new();
    for row in listing.rows.iter().filter(|row| matches!(row.status, Status::Unknown(_))) {
        let problem = row.problem.as_deref().unwrap_or("its runtime does not tell");
        reasons.entry(problem).or_default().push(row.name.as_str());
    }
    reasons
}

fn names(app: &App, listing: &Listing) -> Result<(), CommandError> {
    let rows = listing.rows.iter().map(|row| row.name.as_str());
    let all: Vec<String> =
        rows.chain(listing.broken.iter().map(|broken| broken.name.as_str())).map(plain).collect();
    if !all.is_empty() {
        app.out.line(&all.join("\n"))?;
    }
    Ok(())
}

fn table(listing: &Listing) -> Table {
    let mut table = Table::new(&COLUMNS);
    for row in &listing.rows {
        table.row([
            (row.name.clone(), Tone::Plain),
            (row.image.clone(), Tone::Plain),
            status_cell(&row.status),
            (Stamp::for_table(row.created), Tone::Plain),
        ]);
    }
    for broken in &listing.broken {
        table.row([
            (broken.name.clone(), Tone::Plain),
            ("-".into(), Tone::Plain),
            ("broken".into(), Tone::Bad),
            ("-".into(), Tone::Plain),
        ]);
    }
    table
}

fn entries(listing: &Listing) -> Vec<Entry<'_>> {
    let rows = listing.rows.iter().map(|row| Entry {
        name: &row.name,
        status: row.status.as_str(),
        image: Some(&row.image),
        created: Some(Stamp::for_json(row.created)),
        updated: Some(Stamp::for_json(row.updated)),
        labels: Some(&row.labels).filter(|labels| !labels.is_empty()),
        checkout: Some(&row.checkout),
        checkout_gone: Some(row.checkout_gone),
        detail: row
            .problem
            .as_deref()
            .or(row.keeper.as_ref().map(|keeper| keeper.reason.as_str()))
            .or(row.saved_memory.map(|_| MEMORY_SAVED)),
        saved_memory: row.saved_memory.map(ByteSize::bytes),
    });
    let broken = listing.broken.iter().map(|broken| Entry {
        name: &broken.name,
        status: "broken",
        image: None,
        created: None,
        updated: None,
        labels: None,
        checkout: None,
        checkout_gone: None,
        detail: Some(&broken.problem),
        saved_memory: None,
    });
    rows.chain(broken).collect()
}

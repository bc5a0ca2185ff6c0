//! `df` and the `storage` group: what everything takes on disk, and what pruning would free.

use std::time::Duration;

use clap::{Args, Subcommand};
use sandbox_lifecycle::prune::{Kinds, snapshot};
use sandbox_lifecycle::storage::{Usage, usage};
use sandbox_model::Status;
use serde_json::json;

use super::CommandResult;
use super::list::Format;
use super::prune::{Age, parse_age};
use crate::app::App;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::report::{Column, Table, Tone};

/// Everything that works on storage
#[derive(Debug, Subcommand)]
pub enum StorageCommand {
    Df(DfArgs),
    List(StorageListArgs),
}

#[derive(Debug, Clone, Args)]
pub struct StorageOptions {
    /// Count as reclaimable what was not used for so long [default: 7d, or what the settings say]
    #[arg(long, value_name = "AGE", value_parser = parse_age, allow_hyphen_values = true)]
    pub older_than: Option<Duration>,

    /// Another form than the table
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<Format>,
}

/// Show what everything takes on disk, and what `prune` would free
///
/// Counts what is allocated on disk, as `du` does: a sparse file with what is in it, a file with several
/// names once.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  agents-sandbox df
  agents-sandbox storage list                  each disk, volume and image, and why it stays
  agents-sandbox df --format json")]
pub struct DfArgs {
    #[command(flatten)]
    pub options: StorageOptions,
}

/// List everything that takes space, and why `prune` would leave it
#[derive(Debug, Clone, Args)]
#[command(visible_alias = "ls")]
pub struct StorageListArgs {
    #[command(flatten)]
    pub options: StorageOptions,
}

pub fn run(app: &App, command: &StorageCommand) -> CommandResult {
    match command {
        StorageCommand::Df(args) => df(app, args),
        StorageCommand::List(args) => list(app, args),
    }
}

fn look(app: &App, options: &StorageOptions) -> Result<Usage, CommandError> {
    let age = Age::look(app, options.older_than)?;
    let context = app.context()?;
    let seen = snapshot(&context, None)?;
    let rules = age.rules(Kinds::ALL);
    let usage = usage(&context, &seen, &rules);
    for folder in &usage.unreadable {
        app.console.warning(&format!("{} cannot be read and is not counted", folder.display()));
    }
    for sandbox in seen.sandboxes.iter().filter(|sandbox| matches!(sandbox.status, Status::Unknown(_))) {
        let name = &sandbox.name;
        app.console.warning(&format!(
            "the status of {name} is unknown, so nothing of it is reclaimable; `agents-sandbox list` says why"
        ));
    }
    Ok(usage)
}

pub fn df(app: &App, args: &DfArgs) -> CommandResult {
    let usage = look(app, &args.options)?;
    if args.options.format.is_some() {
        let categories: Vec<_> = usage
            .categories()
            .iter()
            .map(|row| {
                json!({
                    "category": row.category.as_str(),
                    "count": row.count,
                    "size": row.size.bytes(),
                    "reclaimable": row.reclaimable.bytes(),
                })
            })
            .collect();
        app.out.json(&json!({
            "categories": categories,
            "size": usage.total().bytes(),
            "reclaimable": usage.reclaimable().bytes(),
        }))?;
        return Ok(Exit::SUCCESS);
    }
    let headings = ["CATEGORY", "COUNT", "SIZE", "RECLAIMABLE"];
    let mut table = Table::new(&headings.map(|heading| Column { heading, whole: true }));
    for row in usage.categories() {
        let tone = if row.count == 0 { Tone::Dim } else { Tone::Plain };
        let cells =
            [row.category.as_str().into(), row.count.to_string(), row.size.human(), row.reclaimable.human()];
        table.row(cells.map(|text| (text, tone)));
    }
    let cells =
        ["total".into(), usage.items.len().to_string(), usage.total().human(), usage.reclaimable().human()];
    table.row(cells.map(|text| (text, Tone::Plain)));
    app.out.line(&table.render())?;
    if usage.reclaimable().bytes() > 0 {
        app.console.info("`agents-sandbox prune` frees what is reclaimable");
    }
    app.console
        .info("`agents-sandbox storage list` names each, homes without a checkout too, and why it stays");
    Ok(Exit::SUCCESS)
}

fn list(app: &App, args: &StorageListArgs) -> CommandResult {
    let usage = look(app, &args.options)?;
    if args.options.format.is_some() {
        let items: Vec<_> = usage
            .items
            .iter()
            .map(|item| {
                json!({
                    "category": item.category.as_str(),
                    "name": item.name,
                    "size": item.size.bytes(),
                    "reclaimable": item.reclaimable,
                    "kept": item.kept,
                })
            })
            .collect();
        app.out.json(&items)?;
        return Ok(Exit::SUCCESS);
    }
    let mut table = Table::new(&[
        Column { heading: "CATEGORY", whole: true },
        Column { heading: "NAME", whole: false },
        Column { heading: "SIZE", whole: true },
        Column { heading: "STAYS BECAUSE", whole: false },
    ]);
    for item in &usage.items {
        let why = match (&item.kept, item.reclaimable) {
            (_, true) => ("prune would remove it".into(), Tone::Passing),
            (Some(why), false) => (why.clone(), Tone::Plain),
            (None, false) => ("-".into(), Tone::Dim),
        };
        table.row([
            (item.category.as_str().into(), Tone::Plain),
            (item.name.clone(), Tone::Plain),
            (item.size.human(), Tone::Plain),
            why,
        ]);
    }
    app.out.line(&table.render())?;
    Ok(Exit::SUCCESS)
}

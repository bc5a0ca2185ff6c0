//! `network log`: what a sandbox tried to reach.

use std::time::Duration;

use clap::Args;
use sandbox_model::SandboxName;
use sandbox_network::{Event, Verdict};
use sandbox_state::Stamp;

use super::events::{Events, proposal, subject};
use crate::app::App;
use crate::commands::CommandResult;
use crate::commands::args::AgentArg;
use crate::commands::list::Format;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::report::{Column, Table, Tone, plain};
use crate::settings;

const PAUSE: Duration = Duration::from_millis(300);

/// Show what a sandbox tried to reach, and what it was allowed
///
/// Each line has the time, what was tried, the rule that decided, and for what was denied the entry that would
/// open it. The same thing is told once a minute.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  agents-sandbox network log                   of the sandbox of the project in this folder
  agents-sandbox network log --denied          only what was refused
  agents-sandbox network log -f                go on until Ctrl-C
  agents-sandbox network log --format json     for programs, one document")]
pub struct LogArgs {
    /// Another sandbox than this project's
    #[arg(value_name = "NAME", conflicts_with = "agent")]
    pub name: Option<SandboxName>,

    /// Go on until Ctrl-C
    #[arg(long, short = 'f')]
    pub follow: bool,

    /// Only what was refused
    #[arg(long)]
    pub denied: bool,

    /// Another form than the table
    #[arg(long, value_name = "FORMAT", conflicts_with = "follow")]
    pub format: Option<Format>,

    #[command(flatten)]
    pub agent: AgentArg,
}

pub fn run(app: &App, args: &LogArgs) -> CommandResult {
    let context = app.context()?;
    let name = match &args.name {
        Some(name) => name.clone(),
        None => sandbox_lifecycle::sandbox_name(&context, &settings::target(app, &args.agent)?)?,
    };
    let Some(path) = context.runtime.network_log(&name)? else {
        let runtime = context.runtime.name_for(&name)?;
        return Err(CommandError::new(format!(
            "the runtime {runtime} keeps no record of what {name} reaches"
        ))
        .hint("`agents-sandbox logs` shows what it does write"));
    };
    let mut log = Events::new(path);
    let mut shown = log.more()?;
    shown.retain(|event| wanted(event, args));
    if args.format.is_some() {
        app.out.json(&shown)?;
        return Ok(Exit::SUCCESS);
    }
    if shown.is_empty() && !args.follow {
        app.console.info("nothing was tried yet");
        return Ok(Exit::SUCCESS);
    }
    let table = table(&shown);
    app.out.line(&table.render())?;
    if !args.follow {
        return Ok(Exit::SUCCESS);
    }
    loop {
        std::thread::sleep(PAUSE);
        for event in log.more()?.into_iter().filter(|event| wanted(event, args)) {
            app.out.line(&row(&event).map(|(text, _)| text).join("  "))?;
        }
    }
}

fn wanted(event: &Event, args: &LogArgs) -> bool {
    !args.denied || event.verdict != Verdict::Allowed
}

fn table(events: &[Event]) -> Table {
    let columns = [("TIME", true), ("VERDICT", true), ("KIND", true), ("DESTINATION", true), ("WHY", false)];
    let mut table = Table::new(&columns.map(|(heading, whole)| Column { heading, whole }));
    for event in events {
        table.row(row(event));
    }
    table
}

/// What a guest wrote is shown without control characters.
fn row(event: &Event) -> [(String, Tone); 5] {
    let (verdict, tone) = match event.verdict {
        Verdict::Allowed => ("allowed", Tone::Good),
        Verdict::Denied => ("denied", Tone::Bad),
        Verdict::Failed => ("failed", Tone::Bad),
    };
    let why = match proposal(event) {
        Some(entry) => format!("{}; `network allow {entry}` opens it", event.rule),
        None => event.rule.clone(),
    };
    [
        (time(event.at), Tone::Dim),
        (verdict.into(), tone),
        (event.kind.as_str().into(), Tone::Plain),
        (plain(&subject(event)), Tone::Plain),
        (plain(&why), Tone::Plain),
    ]
}

/// As in other tables, to the second.
fn time(millis: u64) -> String {
    Stamp::for_table(i64::try_from(millis / 1000).unwrap_or(i64::MAX))
}

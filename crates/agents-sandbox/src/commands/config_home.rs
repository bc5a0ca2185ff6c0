//! `config home`: which files of this computer go into the sandbox's home.

use clap::Args;
use serde_json::{Value, json};

use super::CommandResult;
use super::list::Format;
use crate::app::App;
use crate::approval;
use crate::exit::Exit;
use crate::report::{Column, Table, Tone};
use crate::settings::Meant;

use sandbox_config::Flags;

/// Show which of your files go into the sandbox's home
///
/// These are the mappings of `home` in the settings, each with the place that says so. A hook is run after a
/// boot, before the agent.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  agents-sandbox config home
  agents-sandbox config home --format json")]
pub struct ConfigHomeArgs {
    /// Another form than the table
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<Format>,
}

pub fn run(app: &App, args: &ConfigHomeArgs) -> CommandResult {
    let meant = Meant::resolve(app, Flags::default())?;
    approval::mark(app, &meant);
    let home = &meant.settings.home;
    if args.format.is_some() {
        let mappings: Vec<Value> = home
            .iter()
            .map(|(target, file)| {
                json!({
                    "target": format!("~/{target}"),
                    "source": file.value.source,
                    "exists": file.value.source.exists(),
                    "startup": file.value.startup,
                    "root": file.value.root,
                    "origin": file.origin.to_string(),
                })
            })
            .collect();
        app.out.json(&mappings)?;
        return Ok(Exit::SUCCESS);
    }
    if home.is_empty() {
        app.console.info("no settings map a file into the home; `home:` in them does");
        return Ok(Exit::SUCCESS);
    }
    let columns = [("IN THE SANDBOX", true), ("FILE", false), ("", false), ("ORIGIN", false)];
    let mut table = Table::new(&columns.map(|(heading, whole)| Column { heading, whole }));
    for (target, file) in home {
        let hook = match (file.value.startup, file.value.root) {
            (false, _) => "",
            (true, false) => "run at startup",
            (true, true) => "run at startup as root",
        };
        let (word, tone) =
            if file.value.source.exists() { (hook, Tone::Plain) } else { ("missing", Tone::Bad) };
        table.row([
            (format!("~/{target}"), Tone::Plain),
            (file.value.source.display().to_string(), Tone::Plain),
            (word.into(), tone),
            (file.origin.to_string(), Tone::Dim),
        ]);
    }
    app.out.line(&table.render())?;
    Ok(Exit::SUCCESS)
}

//! `config agent`: what of an agent's configuration goes into its sandbox, and why.

use clap::Args;
use sandbox_lifecycle::{Assembly, Fate, Item, Layer, assemble};
use sandbox_model::AgentName;
use serde_json::{Value, json};

use super::CommandResult;
use super::args::{AgentArg, agent_parser};
use super::list::Format;
use crate::app::App;
use crate::approval;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::report::{Column, Table, Tone};
use crate::settings::Meant;

/// Show what of an agent's configuration goes into its sandbox
///
/// Snippets are merged into one document, all other files of the agent's folders are copied. Habits are your
/// own instructions, prompts, commands and skills. Shows each file, where it goes, and what becomes of it.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  agents-sandbox config agent                  the agent that would run here
  agents-sandbox config agent claude-code      another one
  agents-sandbox config agent pi --format json")]
pub struct ConfigAgentArgs {
    /// The agent [default: opencode, or what the settings say]
    #[arg(value_name = "NAME", value_parser = agent_parser())]
    pub name: Option<AgentName>,

    #[command(flatten)]
    pub agent: AgentArg,

    /// Another form than the table
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<Format>,
}

pub fn run(app: &App, args: &ConfigAgentArgs) -> CommandResult {
    if let (Some(name), Some(flag)) = (args.name, args.agent.agent)
        && name != flag
    {
        return Err(CommandError::usage(format!("`{name}` and `--agent {flag}` are two agents: name one")));
    }
    let agent = AgentArg { agent: args.agent.agent.or(args.name) };
    let meant = Meant::resolve(app, agent.flags())?;
    approval::mark(app, &meant);
    let agent = meant.settings.agent.value;
    // A mount that cannot be used is no reason to show nothing.
    let mounts = meant.mounts().unwrap_or_else(|error| {
        app.console.warning(&error.message);
        Vec::new()
    });
    let assembly = assemble(&App::layout()?, &meant.project, &mounts, agent, &meant.provision())?;
    for warning in &assembly.warnings {
        app.console.warning(&format!("not copied: {warning}"));
    }
    let host_config = meant.settings.provision_host_config.value;
    if args.format.is_some() {
        let items: Vec<Value> = items(&assembly).map(json).collect();
        app.out.json(&json!({
            "agent": agent.to_string(),
            "provision-host-config": host_config,
            "provision-habits": meant.settings.provision_habits.value,
            "document": assembly.document,
            "files": items,
        }))?;
        return Ok(Exit::SUCCESS);
    }
    app.out.line(&format!("{agent}, provision-host-config: {host_config}"))?;
    if items(&assembly).next().is_none() {
        app.console.info("there is no configuration for it: neither here, nor yours");
        return Ok(Exit::SUCCESS);
    }
    let columns = [("FROM", true), ("FILE", false), ("IN THE SANDBOX", false), ("WHAT BECOMES OF IT", false)];
    let mut table = Table::new(&columns.map(|(heading, whole)| Column { heading, whole }));
    for item in items(&assembly) {
        let tone = match item.fate {
            Fate::Merged | Fate::Copied => Tone::Plain,
            Fate::Replaced { .. } | Fate::Left(_) => Tone::Dim,
        };
        let words = [
            item.layer.as_str().into(),
            item.source.display().to_string(),
            format!("~/{}", item.target),
            fate(&item.fate),
        ];
        table.row(words.map(|word| (word, tone)));
    }
    app.out.line(&table.render())?;
    if let Some(document) = &assembly.document {
        app.out.line(&format!("\nthe merged document:\n{document:#}"))?;
    }
    Ok(Exit::SUCCESS)
}

/// What `config home` shows is not shown here, unless it takes the place of one of these.
fn items(assembly: &Assembly) -> impl Iterator<Item = &Item> {
    assembly.items.iter().filter(|item| item.layer != Layer::Home)
}

pub fn fate(fate: &Fate) -> String {
    match fate {
        Fate::Merged => "merged".into(),
        Fate::Copied => "copied".into(),
        Fate::Replaced { by } => format!("replaced by {}", by.display()),
        Fate::Left(why) => format!("not copied: {why}"),
    }
}

pub fn json(item: &Item) -> Value {
    json!({
        "from": item.layer.as_str(),
        "source": item.source,
        "target": format!("~/{}", item.target),
        "fate": fate(&item.fate),
    })
}

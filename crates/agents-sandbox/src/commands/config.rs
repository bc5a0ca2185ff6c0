//! The `config` group, and `config show`.

use clap::{Args, Subcommand};
use sandbox_config::{Entry, Flags, Origin, SecretDefinition};
use sandbox_lifecycle::agent_versions;
use serde_json::{Map, Value, json};

use super::list::Format;
use super::{CommandResult, approve, config_agent, config_home};
use crate::agent_version;
use crate::app::App;
use crate::approval;
use crate::exit::Exit;
use crate::report::{Column, Table, Tone};
use crate::secrets;
use crate::settings::Meant;

/// No setting of a file, and what one would look for here: what this folder's sandbox has.
const VERSION: &str = "agent-version";
const VERSION_ORIGIN: &str = "the image";

/// Everything that works on settings
#[derive(Debug, Subcommand)]
#[command(visible_alias = "cfg")]
pub enum ConfigCommand {
    Show(ShowArgs),
    Agent(config_agent::ConfigAgentArgs),
    Home(config_home::ConfigHomeArgs),
    Approve(approve::ApproveArgs),
}

/// Show the settings that hold in this folder
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  agents-sandbox config show                   each setting and its value
  agents-sandbox config show --origin          also the file, variable or flag each one came from
  agents-sandbox config show --format json")]
pub struct ShowArgs {
    /// Also say where each value came from
    #[arg(long)]
    pub origin: bool,

    /// Another form than the table
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<Format>,
}

pub fn run(app: &App, command: &ConfigCommand) -> CommandResult {
    match command {
        ConfigCommand::Show(args) => show(app, args),
        ConfigCommand::Agent(args) => config_agent::run(app, args),
        ConfigCommand::Home(args) => config_home::run(app, args),
        ConfigCommand::Approve(args) => approve::run(app, args),
    }
}

fn show(app: &App, args: &ShowArgs) -> CommandResult {
    let meant = Meant::resolve(app, Flags::default())?;
    approval::mark(app, &meant);
    let entries = sandbox_config::entries(&meant.settings);
    let version = agent_version::words(&agent_versions(&App::layout()?, &meant.target())?);
    // What is wrong with them was said above.
    let files = secrets::files(&App::layout()?, Some(&meant.project.config_dir));
    let defined = files.unwrap_or_default().secrets;
    if args.format.is_some() {
        let mut document: Map<String, Value> = entries.iter().map(|entry| json(entry, args.origin)).collect();
        if let Some(version) = version {
            let origin = json!({ "value": version, "origin": VERSION_ORIGIN });
            document.insert(VERSION.into(), if args.origin { origin } else { version.into() });
        }
        let secrets = defined.iter().map(|(name, secret)| (name.clone(), secret_json(secret, args.origin)));
        document.insert("secrets".into(), secrets.collect::<Map<_, _>>().into());
        app.out.json(&document)?;
        return Ok(Exit::SUCCESS);
    }
    let columns = [("SETTING", true), ("VALUE", false), ("ORIGIN", false)];
    let count = if args.origin { 3 } else { 2 };
    let columns: Vec<Column> =
        columns[..count].iter().map(|(heading, whole)| Column { heading, whole: *whole }).collect();
    let mut table = Table::new(&columns);
    for entry in entries {
        // What somebody set stands out from what is built in.
        let tone = if entry.origin == Origin::Default { Tone::Dim } else { Tone::Plain };
        let value = match (&entry.json, entry.value.is_empty()) {
            (_, false) => entry.value,
            // Somebody may have set it to nothing.
            (Value::Array(_), true) => "[]".into(),
            (Value::Object(_), true) => "{}".into(),
            (_, true) => "-".into(),
        };
        table.row(
            [entry.key, value, entry.origin.to_string()].into_iter().take(count).map(|text| (text, tone)),
        );
    }
    if let Some(version) = version {
        let row = [VERSION.to_string(), version, VERSION_ORIGIN.into()];
        table.row(row.into_iter().take(count).map(|text| (text, Tone::Plain)));
    }
    for (name, secret) in &defined {
        let value = format!("for {}, from {}", secrets::reach(&secret.value), secret.value.source);
        let row = [format!("secrets.{name}"), value, secret.origin.to_string()];
        table.row(row.into_iter().take(count).map(|text| (text, Tone::Plain)));
    }
    app.out.line(&table.render())?;
    Ok(Exit::SUCCESS)
}

/// Everything but the value.
fn secret_json(secret: &sandbox_config::Value<SecretDefinition>, origin: bool) -> Value {
    let definition = &secret.value;
    let mut shown = json!({
        "hosts": definition.hosts.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "from": definition.source.to_string(),
        "headers": definition.headers,
        "query": definition.query,
        "body": definition.body,
    });
    if origin {
        shown["origin"] = secret.origin.to_string().into();
    }
    shown
}

fn json(entry: &Entry, origin: bool) -> (String, Value) {
    let value = entry.json.clone();
    let value = if origin { json!({ "value": value, "origin": entry.origin.to_string() }) } else { value };
    (entry.key.clone(), value)
}

//! The `config` group, and `config show`.

use clap::{Args, Subcommand};

use super::CommandResult;
use super::list::Format;
use crate::app::App;

/// Everything that works on settings
#[derive(Debug, Subcommand)]
#[command(visible_alias = "cfg")]
pub enum ConfigCommand {
    Show(ShowArgs),
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
    }
}

fn show(app: &App, args: &ShowArgs) -> CommandResult {
    let _ = (app, args);
    Err(crate::error::CommandError::new("settings are not available in this version"))
}

//! `version`.

use clap::Args;

use super::{CommandResult, PROGRAM};
use crate::app::App;
use crate::exit::Exit;

/// Print the name and the version of this program
#[derive(Debug, Clone, Args)]
pub struct VersionArgs {}

pub fn run(app: &App, _args: &VersionArgs) -> CommandResult {
    app.out.line(&format!("{PROGRAM} {}", env!("CARGO_PKG_VERSION")))?;
    Ok(Exit::SUCCESS)
}

//! `build`: make the image of the project's sandbox; `build dockerfile`: print what it is made from.

use clap::{Args, Subcommand};

use super::CommandResult;
use super::args::AgentArg;
use crate::app::App;

/// Build the image of the project's sandbox
///
/// `run` does it by itself when something changed; this is for doing it ahead, or anew.
#[derive(Debug, Clone, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  agents-sandbox build                 build what changed
  agents-sandbox build -r              build everything anew
  agents-sandbox build dockerfile      see the Dockerfile that would be built"
)]
pub struct BuildArgs {
    #[command(subcommand)]
    pub what: Option<BuildCommand>,

    /// Build anew, without the layers of earlier builds
    #[arg(long, short = 'r')]
    pub rebuild: bool,

    /// Say what would be done, and do nothing
    #[arg(long, short = 'n')]
    pub dry_run: bool,

    #[command(flatten)]
    pub agent: AgentArg,

    /// Put this version of the agent into the image
    #[arg(long, value_name = "VERSION", alias = "opencode-version")]
    pub agent_version: Option<String>,

    /// Put a Docker engine into the image
    #[arg(long)]
    pub docker: bool,
}

#[derive(Debug, Clone, Subcommand)]
pub enum BuildCommand {
    Dockerfile(DockerfileArgs),
}

/// Print the Dockerfile that would be built; contacts no image engine
#[derive(Debug, Clone, Args)]
pub struct DockerfileArgs {
    #[command(flatten)]
    pub agent: AgentArg,

    /// Put a Docker engine into the image
    #[arg(long)]
    pub docker: bool,
}

pub fn run(app: &App, args: &BuildArgs) -> CommandResult {
    let _ = (app, args);
    Err(crate::error::CommandError::new("building is not available in this version"))
}

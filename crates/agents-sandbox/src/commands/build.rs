//! `build`: make the image of the project's sandbox; `build dockerfile`: print what it is made from.

use clap::{Args, Subcommand};
use sandbox_config::Flags;

use super::args::AgentArg;
use super::{CommandResult, prepare};
use crate::app::App;
use crate::approval::{self, Purpose};
use crate::exit::Exit;
use crate::settings::Meant;
use crate::wiring;

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

    /// Keep the agent at this version; `latest` takes the newest again
    #[arg(long, value_name = "VERSION", value_parser = super::values::agent_version, allow_hyphen_values = true, alias = "opencode-version")]
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
    if let Some(BuildCommand::Dockerfile(args)) = &args.what {
        return dockerfile(app, args);
    }
    let meant = Meant::resolve(app, flags(&args.agent, args.docker))?;
    let purpose = if args.dry_run { Purpose::Look } else { Purpose::Use };
    let reviewed = approval::review(app, &meant, purpose)?;
    let request = meant.build_request(args.rebuild, args.agent_version.as_deref(), &reviewed)?;
    if args.dry_run {
        app.console.info(&format!("would build {}", request.reference()));
        return Ok(Exit::SUCCESS);
    }
    let context = app.context_for(&meant.settings)?;
    let _interruptible = prepare::interruptible(&context, meant.target())?;
    let built = sandbox_lifecycle::build(&context, &request)?;
    let what = if built.built { "built" } else { "nothing changed:" };
    app.console.info(&format!("{what} {} ({})", built.reference, built.digest.short()));
    Ok(Exit::SUCCESS)
}

fn dockerfile(app: &App, args: &DockerfileArgs) -> CommandResult {
    let meant = Meant::resolve(app, flags(&args.agent, args.docker))?;
    let reviewed = approval::review(app, &meant, Purpose::Look)?;
    let request = meant.build_request(false, None, &reviewed)?;
    let context = app.context_for(&meant.settings)?;
    let text = sandbox_lifecycle::dockerfile(&context, &wiring::engine_images(), &request)?;
    app.out.bytes(text.as_bytes())?;
    Ok(Exit::SUCCESS)
}

fn flags(agent: &AgentArg, docker: bool) -> Flags {
    Flags { docker: docker.then_some(true), ..agent.flags() }
}

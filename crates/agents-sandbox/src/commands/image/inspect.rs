//! `image inspect`: everything known about one image.

use clap::Args;
use sandbox_lifecycle::LifecycleError;
use sandbox_model::{ImageRef, SandboxName};
use sandbox_state::Stamp;
use serde::Serialize;

use crate::app::App;
use crate::approval::{self, Purpose};
use crate::commands::CommandResult;
use crate::commands::args::AgentArg;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::settings::Meant;

/// Show everything about an image, as JSON
#[derive(Debug, Clone, Args)]
pub struct ImageInspectArgs {
    /// Its reference, as `agents-sandbox image list` shows it [default: the project's]
    #[arg(value_name = "REFERENCE", conflicts_with = "agent")]
    pub reference: Option<ImageRef>,

    #[command(flatten)]
    pub agent: AgentArg,
}

#[derive(Serialize)]
struct Inspection {
    #[serde(flatten)]
    entry: serde_json::Value,
    /// Variables that it sets.
    env: Vec<String>,
    used_by: Vec<SandboxName>,
}

pub fn run(app: &App, args: &ImageInspectArgs) -> CommandResult {
    let context = app.context()?;
    let reference = match &args.reference {
        Some(reference) => reference.clone(),
        None => the_projects(app, &args.agent)?,
    };
    let image = context.runtime.inspect_image(&reference)?;
    let image = image.ok_or_else(|| CommandError::from(LifecycleError::NoSuchImage(reference)))?;
    let sandboxes = context.runtime.list()?.sandboxes.into_iter();
    let users = sandboxes.filter(|info| info.spec.image_digest == image.digest);
    app.out.json(&Inspection {
        used_by: users.map(|info| info.spec.name).collect(),
        env: image.env.iter().map(|(key, value)| format!("{key}={value}")).collect(),
        entry: serde_json::json!({
            "reference": image.reference,
            "digest": image.digest,
            "size": image.size.bytes(),
            "created": Stamp::for_json(image.created),
            "labels": image.labels,
        }),
    })?;
    Ok(Exit::SUCCESS)
}

pub fn the_projects(app: &App, agent: &AgentArg) -> Result<ImageRef, CommandError> {
    let meant = Meant::resolve(app, agent.flags())?;
    let reviewed = approval::review(app, &meant, Purpose::Look)?;
    Ok(meant.build_request(false, None, &reviewed)?.reference())
}

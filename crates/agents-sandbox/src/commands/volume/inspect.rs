//! `volume inspect`: everything known about one home volume.

use clap::Args;
use sandbox_lifecycle::volumes::{VolumeError, list};
use sandbox_model::VolumeName;

use super::list::Entry;
use crate::app::App;
use crate::commands::CommandResult;
use crate::commands::args::AgentArg;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::settings;

/// Show everything about a home volume, as JSON
#[derive(Debug, Clone, Args)]
pub struct VolumeInspectArgs {
    /// Its name, as `agents-sandbox volume list` shows it [default: the project's current one]
    #[arg(value_name = "NAME", conflicts_with = "agent")]
    pub name: Option<VolumeName>,

    #[command(flatten)]
    pub agent: AgentArg,
}

pub fn run(app: &App, args: &VolumeInspectArgs) -> CommandResult {
    let volumes = list(&app.context()?)?;
    let found = if let Some(name) = &args.name {
        let named = volumes.iter().find(|volume| volume.name == *name);
        named.ok_or_else(|| CommandError::from(VolumeError::NoSuchVolume(name.clone())))?
    } else {
        let target = settings::target(app, &args.agent)?;
        let name = target.name();
        let current = volumes.iter().find(|volume| volume.current_of.as_ref() == Some(&name));
        current.ok_or_else(|| CommandError::from(VolumeError::NoHome(target)))?
    };
    app.out.json(&Entry::from(found))?;
    Ok(Exit::SUCCESS)
}

//! `volume migrate` and `volume reset`: another home for the project's sandbox.

use clap::Args;
use sandbox_lifecycle::volumes::{self, Replaced, Replacement};
use sandbox_model::VolumeName;

use crate::app::App;
use crate::approval::{self, Purpose};
use crate::commands::CommandResult;
use crate::commands::args::AgentArg;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::settings::Meant;
use crate::terminal::interruptible;

/// What `migrate`, `reset` and `edit` have in common.
#[derive(Debug, Clone, Args)]
pub struct ReplaceArgs {
    /// The volume to leave for the new one [default: the project's current one]
    #[arg(value_name = "NAME")]
    pub name: Option<VolumeName>,

    /// Remove that volume once the new one is recorded
    #[arg(long = "rm")]
    pub remove_old: bool,

    /// Say what would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,

    #[command(flatten)]
    pub agent: AgentArg,
}

/// Make a new home from the image, with all files of the current one on top
///
/// For when the image has something new in its home folder. The current volume stays where it is. The next
/// run starts the sandbox with the new one.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  agents-sandbox volume migrate                the project's home
  agents-sandbox volume migrate --rm           and remove the old volume when all went well
  agents-sandbox volume migrate NAME           take the files of another volume of this project,
                                               also one from before its .git came or went")]
pub struct MigrateArgs {
    #[command(flatten)]
    pub replace: ReplaceArgs,
}

/// Make a new home from the image alone: settings and sessions of the agent start anew
///
/// The current volume stays where it is, and `volume migrate NAME` brings its files back.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  agents-sandbox volume reset
  agents-sandbox volume reset --agent pi --rm")]
pub struct ResetArgs {
    #[command(flatten)]
    pub replace: ReplaceArgs,
}

pub fn migrate(app: &App, args: &MigrateArgs) -> CommandResult {
    let (meant, wish) = args.replace.wish(app)?;
    if args.replace.dry_run {
        return args.replace.preview(app, &wish, "with the files of the old one");
    }
    let _interruptible = interruptible(volumes::abandon)?;
    Ok(tell(app, &volumes::migrate(&app.context_for(&meant.settings)?, &wish)?))
}

pub fn reset(app: &App, args: &ResetArgs) -> CommandResult {
    let (meant, wish) = args.replace.wish(app)?;
    if args.replace.dry_run {
        return args.replace.preview(app, &wish, "with nothing of the old one");
    }
    let _interruptible = interruptible(volumes::abandon)?;
    Ok(tell(app, &volumes::reset(&app.context_for(&meant.settings)?, &wish)?))
}

impl ReplaceArgs {
    pub fn wish(&self, app: &App) -> Result<(Meant, Replacement), CommandError> {
        let meant = Meant::resolve(app, self.agent.flags())?;
        let purpose = if self.dry_run { Purpose::Look } else { Purpose::Use };
        let reviewed = approval::review(app, &meant, purpose)?;
        let build = meant.build_request(false, None, &reviewed)?;
        let former = approval::former_names(&App::layout()?, &meant.project);
        let volume = self.name.clone();
        Ok((meant, Replacement { build, volume, former, remove_old: self.remove_old }))
    }

    pub fn preview(&self, app: &App, wish: &Replacement, what: &str) -> CommandResult {
        let context = app.context()?;
        let old = volumes::replaceable(&context, wish)?;
        let fate = if self.remove_old { "removed" } else { "kept" };
        app.console.info(&format!(
            "would make a new home volume from {}, {what}; {old} would be {fate}",
            wish.build.reference()
        ));
        Ok(Exit::SUCCESS)
    }
}

/// Says what became of it.
pub fn tell(app: &App, replaced: &Replaced) -> Exit {
    let Replaced { old, new, .. } = replaced;
    app.console.info(&format!("{new} is the home volume from the next run on"));
    if replaced.running {
        app.console.info("the sandbox runs on with the one before; `agents-sandbox stop` ends it");
    }
    if let Some(problem) = &replaced.old_kept {
        app.console.warning(&format!("{old} could not be removed: {problem}"));
    } else if replaced.removed_old {
        app.console.info(&format!("{old} is removed"));
    } else {
        app.console.info(&format!("{old} is kept; `agents-sandbox volume remove {old}` removes it"));
    }
    Exit::SUCCESS
}

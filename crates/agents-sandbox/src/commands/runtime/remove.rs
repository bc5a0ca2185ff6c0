//! `runtime remove`: take the private runtime away.

use clap::Args;
use sandbox_model::Status;
use sandbox_runtime::Runtime;
use sandbox_runtime_microsandbox::{MsbRuntime, uninstall};

use crate::app::App;
use crate::commands::CommandResult;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::wiring;

/// Remove the private microsandbox runtime with its images; the next run installs it again
///
/// QEMU machines take their kernel from it, and get it anew as well. Home volumes stay in any case.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  agents-sandbox runtime remove --dry-run
  agents-sandbox runtime remove --force     also where stopped sandboxes are on it: they are made anew")]
pub struct RemoveArgs {
    /// Also remove the sandboxes at rest that are on it; their home volumes stay
    #[arg(long, short = 'f')]
    pub force: bool,

    /// Say what would be done, and do nothing
    #[arg(long, short = 'n')]
    pub dry_run: bool,
}

pub fn run(app: &App, args: &RemoveArgs) -> CommandResult {
    let layout = App::layout()?;
    let settings = sandbox_config::Settings::default();
    let runtime = wiring::drivers::microsandbox(&layout, &App::program()?, &settings, &app.console);
    if runtime.is_running() {
        return Err(CommandError::new("sandboxes run on microsandbox now")
            .hint("`agents-sandbox list --running` shows them; `agents-sandbox stop` ends one"));
    }
    let sandboxes = names(&runtime)?;
    if !sandboxes.is_empty() && !args.force {
        return Err(CommandError::new(format!("sandboxes are on microsandbox: {}", sandboxes.join(", ")))
            .hint("`agents-sandbox sandbox remove NAME` removes one; its home volume stays")
            .hint("`agents-sandbox runtime remove --force` removes all of them with it"));
    }
    let home = layout.msb();
    if args.dry_run {
        let more =
            if sandboxes.is_empty() { String::new() } else { format!(" and {}", sandboxes.join(", ")) };
        app.console.info(&format!("would remove {}{more}", home.display()));
        return Ok(Exit::SUCCESS);
    }
    if !home.exists() {
        app.console.info(&format!("there is no {}", home.display()));
        return Ok(Exit::SUCCESS);
    }
    let freed = uninstall(&layout).map_err(|error| CommandError::from_chain(&error))?;
    wiring::choice::Trial::forget(&layout)?;
    app.console.info(&format!("{} is removed, which frees {}", home.display(), freed.human()));
    Ok(Exit::SUCCESS)
}

/// Every sandbox on it, those with a broken record too.
fn names(runtime: &MsbRuntime) -> Result<Vec<String>, CommandError> {
    let list = runtime.list()?;
    let whole = list.sandboxes.into_iter().map(|info| match info.status {
        Status::Unknown(_) => format!("{} (unknown status)", info.spec.name),
        _ => info.spec.name.to_string(),
    });
    Ok(whole.chain(list.broken.into_iter().map(|broken| broken.name)).collect())
}

//! `upgrade`: put a newer release in the place of this program.

use std::time::Duration;

use clap::Args;
use sandbox_config::Flags;

use super::CommandResult;
use crate::app::App;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::settings::Meant;
use crate::terminal::{can_ask, confirm};
use crate::upgrade::{Source, Version, install, newest_of};

/// For the list of releases.
const DEADLINE: Duration = Duration::from_mins(1);

/// Put a newer release in the place of this program
///
/// Takes releases from where the setting `upgrade.source` says: a folder, or an https address, with a file
/// SHA256SUMS and files named agents-sandbox-VERSION-OS-MACHINE. Checks the sum, tries the new program, asks,
/// and only then replaces this one. Sandboxes that run go on; they take the new version when they next start.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  agents-sandbox upgrade --check                      say whether there is a newer one
  agents-sandbox upgrade --from https://example.org/agents-sandbox
  agents-sandbox upgrade --from ~/Downloads/release --yes")]
pub struct UpgradeArgs {
    /// Say whether there is a newer release, and change nothing
    #[arg(long)]
    pub check: bool,

    /// A folder or https address with releases [default: what `upgrade.source` says]
    #[arg(long, value_name = "PLACE")]
    pub from: Option<String>,
}

pub fn run(app: &App, args: &UpgradeArgs) -> CommandResult {
    let flags = Flags { upgrade_source: args.from.clone(), ..Flags::default() };
    let settings = Meant::resolve(app, flags)?.settings;
    let Some(source) = settings.upgrade_source.value.as_deref().map(Source::of) else {
        return Err(CommandError::new("it is not set where releases of this program are")
            .hint("`agents-sandbox upgrade --from PLACE` takes a folder or an https address")
            .hint("`upgrade.source: PLACE` in your settings makes it the usual one"));
    };
    let machine = format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH);
    let release = newest_of(&source, DEADLINE)?
        .ok_or_else(|| CommandError::new(format!("{source} has no release for {machine}")))?;
    let current: Option<Version> = env!("CARGO_PKG_VERSION").parse().ok();
    let own = env!("CARGO_PKG_VERSION");
    if current.is_some_and(|current| current >= release.version) {
        app.console.info(&format!("this is {own}; {source} has nothing newer than {}", release.version));
        return Ok(Exit::SUCCESS);
    }
    app.console.info(&format!("{} is newer than this {own}, at {source}", release.version));
    if args.check {
        return Ok(Exit::SUCCESS);
    }
    if !settings.yes.value {
        if !can_ask() {
            return Err(CommandError::new("nothing was replaced: there is no terminal to ask on")
                .hint("`agents-sandbox upgrade --yes` replaces without asking"));
        }
        match confirm(&format!("Replace this program by {}?", release.version))? {
            Some(true) => {}
            Some(false) => {
                app.console.info("nothing was replaced");
                return Ok(Exit::SUCCESS);
            }
            None => {
                return Err(CommandError { exit: Exit::from_signal(2), ..CommandError::new("interrupted") });
            }
        }
    }
    install(&app.console, &source, &release, &App::program()?)?;
    app.console.info(&format!("this program is {} now; it was {own}", release.version));
    Ok(Exit::SUCCESS)
}

//! Before a run: whether there is a newer release, asked at most once in `upgrade.interval`, and what
//! `upgrade.mode` makes of it. Whatever fails here is for those who ask for details, and the run goes on.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use sandbox_config::{Settings, UpgradeMode};
use sandbox_lifecycle::Reporter;
use sandbox_state::{Layout, Stamp, read_record, write_record};
use serde::{Deserialize, Serialize};

use super::{Release, Source, Version, install, newest};
use crate::app::App;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::terminal::choose;

/// A person waits for the run behind it.
const DEADLINE: Duration = Duration::from_secs(5);

/// `upgrade.json`: what is remembered from one look to the next.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Looked {
    /// Seconds since 1970; the look may have come to nothing.
    at: i64,
    /// The version that the user does not want to hear of again.
    skipped: Option<String>,
}

/// What is done about a newer release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    Nothing,
    Tell,
    Ask,
    Replace { exit: bool },
}

/// `Some` where the run ends here.
pub fn look(app: &App, settings: &Settings) -> Option<Exit> {
    let source = settings.upgrade_source.value.as_deref().map(Source::of)?;
    match try_look(app, settings, &source) {
        Ok(exit) => exit,
        Err(error) => {
            let causes = error.causes.join(": ");
            app.console.verbose(&format!("no newer version was found: {} {causes}", error.message));
            None
        }
    }
}

fn try_look(app: &App, settings: &Settings, source: &Source) -> Result<Option<Exit>, CommandError> {
    let layout = App::layout()?;
    // One that cannot be read is left alone, and nothing is looked for.
    let mut looked: Looked = read_record(&layout.upgrade_look())?.unwrap_or_default();
    let now = Stamp::now();
    if !is_due(now, looked.at, settings.upgrade_interval.value) {
        return Ok(None);
    }
    // Written first: a place that does not answer is asked once in the interval too.
    looked.at = now;
    write_record(&layout.upgrade_look(), &looked)?;
    let step = app.console.begin("looking for a newer version");
    let release = newest_of(source, DEADLINE)?;
    step.finish(None);
    let Some(release) = release.filter(|release| is_newer(release.version)) else { return Ok(None) };
    let skipped = looked.skipped.as_deref() == Some(&release.version.to_string());
    match deed(settings.upgrade_mode.value, app.console.may_ask(), skipped) {
        Deed::Nothing => Ok(None),
        Deed::Tell => {
            tell(app, &release);
            Ok(None)
        }
        Deed::Replace { exit } => Ok(replace(app, source, &release, exit)),
        Deed::Ask => ask(app, &layout, &looked, source, &release),
    }
}

/// The newest release of a place for this machine.
pub fn newest_of(source: &Source, deadline: Duration) -> Result<Option<Release>, CommandError> {
    let mut sums = Vec::new();
    source.fetch("SHA256SUMS", deadline, &mut sums, &mut |_, _| {})?;
    let machine = format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH);
    Ok(newest(&String::from_utf8_lossy(&sums), &machine))
}

fn is_newer(version: Version) -> bool {
    env!("CARGO_PKG_VERSION").parse::<Version>().is_ok_and(|own| own < version)
}

/// A time of the future is no reason to wait for it.
fn is_due(now: i64, last: i64, interval: Duration) -> bool {
    u64::try_from(now.saturating_sub(last)).map_or(true, |age| age >= interval.as_secs())
}

const fn deed(mode: UpgradeMode, may_ask: bool, skipped: bool) -> Deed {
    match mode {
        _ if skipped => Deed::Nothing,
        UpgradeMode::Prompt if may_ask => Deed::Ask,
        UpgradeMode::Prompt | UpgradeMode::Notify => Deed::Tell,
        UpgradeMode::Auto => Deed::Replace { exit: false },
        UpgradeMode::AutoExit => Deed::Replace { exit: true },
    }
}

fn tell(app: &App, release: &Release) {
    app.console.info(&format!(
        "version {} is there, and this is {}; `agents-sandbox upgrade` takes it",
        release.version,
        env!("CARGO_PKG_VERSION")
    ));
}

fn ask(
    app: &App,
    layout: &Layout,
    looked: &Looked,
    source: &Source,
    release: &Release,
) -> Result<Option<Exit>, CommandError> {
    let lines = app.console.lines();
    lines.write(&format!("Version {} is there, and this is {}.", release.version, env!("CARGO_PKG_VERSION")));
    lines.write("  continue  go on with this one (the default)");
    lines.write("  skip      go on, and say nothing of that version again");
    lines.write("  upgrade   put it in the place of this program, and go on with it");
    lines.write("  exit      put it in the place of this program, and leave");
    let words = ["continue", "skip", "upgrade", "exit"];
    match app.console.still(|| choose("continue, skip, upgrade or exit?", &words))? {
        Some(1) => {
            let looked = Looked { skipped: Some(release.version.to_string()), at: looked.at };
            write_record(&layout.upgrade_look(), &looked)?;
            Ok(None)
        }
        Some(2) => Ok(replace(app, source, release, false)),
        Some(3) => Ok(replace(app, source, release, true)),
        Some(_) => Ok(None),
        None => Ok(Some(Exit::from_signal(2))),
    }
}

/// Never without a word. What goes wrong leaves this program as it is, and the run goes on with it.
fn replace(app: &App, source: &Source, release: &Release, exit: bool) -> Option<Exit> {
    let replaced = App::program().and_then(|program| {
        install(&app.console, source, release, &program)?;
        Ok(program)
    });
    match replaced {
        Ok(program) => {
            app.console.info(&format!(
                "this program is {} now; it was {}",
                release.version,
                env!("CARGO_PKG_VERSION")
            ));
            Some(if exit { Exit::SUCCESS } else { begin_again(app, &program) })
        }
        Err(error) => {
            tell(app, release);
            app.console.verbose(&format!("it could not be put in the place of this one: {}", error.message));
            None
        }
    }
}

/// The new program does what this one was told to. Returns only where it cannot be run.
fn begin_again(app: &App, program: &Path) -> Exit {
    let error = Command::new(program).args(std::env::args_os().skip(1)).exec();
    app.console.warning(&format!("{} cannot be run: {error}", program.display()));
    Exit::FAILURE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_asked_once_in_the_interval() {
        let day = Duration::from_hours(24);
        assert!(is_due(86_400, 0, day));
        assert!(!is_due(86_399, 0, day));
        assert!(is_due(10, 0, Duration::from_secs(10)));
        assert!(is_due(0, 5, day), "a clock that was set back");
    }

    #[test]
    fn each_mode_has_its_deed_and_nobody_is_asked_where_nobody_is() {
        use UpgradeMode::{Auto, AutoExit, Notify, Prompt};
        for (mode, may_ask, expected) in [
            (Prompt, true, Deed::Ask),
            (Prompt, false, Deed::Tell),
            (Notify, true, Deed::Tell),
            (Notify, false, Deed::Tell),
            (Auto, true, Deed::Replace { exit: false }),
            (Auto, false, Deed::Replace { exit: false }),
            (AutoExit, false, Deed::Replace { exit: true }),
        ] {
            assert_eq!(deed(mode, may_ask, false), expected, "{mode}");
            assert_eq!(deed(mode, may_ask, true), Deed::Nothing, "{mode}");
        }
    }
}

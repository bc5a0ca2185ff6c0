//! `doctor`: is everything there that a sandbox needs?

use clap::Args;
use sandbox_config::{Flags, Settings};
use sandbox_lifecycle::Project;

use super::CommandResult;
use super::list::Format;
use crate::app::App;
use crate::doctor::{Finding, Grade, examine, lacking};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::report::{Column, Table, Tone};
use crate::settings::Meant;

/// Check that this computer has all that is needed
///
/// Starts nothing and changes nothing. Ends with an error if something is missing without which no sandbox
/// works, or if the settings cannot be read.
#[derive(Debug, Clone, Args)]
pub struct DoctorArgs {
    /// Another form than lines
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<Format>,
}

pub fn run(app: &App, args: &DoctorArgs) -> CommandResult {
    let (settings, project, unread) = settings(app)?;
    let findings = examine(&App::layout()?, &settings, project.as_ref());
    if args.format.is_some() {
        app.out.json(&findings)?;
    } else {
        app.out.line(&table(&findings).render())?;
    }
    if args.format.is_none() {
        let notes = findings.iter().filter(|finding| finding.grade == Grade::Note);
        for (check, hint) in notes.filter_map(|note| Some((note.check, note.hint.as_ref()?))) {
            app.console.info(&format!("{check}: {hint}"));
        }
    }
    ended(&findings, unread)
}

fn ended(findings: &[Finding], unread: bool) -> CommandResult {
    match lacking(findings) {
        Some(error) => Err(error),
        // It was told above, and no sandbox starts here before it is mended.
        None if unread => Ok(Exit::FAILURE),
        None => Ok(Exit::SUCCESS),
    }
}

/// Those of the current folder, and whether they could not be read: all else is looked at then.
fn settings(app: &App) -> Result<(Settings, Option<Project>, bool), CommandError> {
    match Meant::resolve(app, Flags::default()) {
        Ok(meant) => Ok((meant.settings, Some(meant.project), false)),
        Err(error) if error.exit == Exit::USAGE => Err(error),
        Err(error) => {
            app.console.error(&error.render());
            Ok((Settings::default(), None, true))
        }
    }
}

fn table(findings: &[Finding]) -> Table {
    let mut table = Table::new(&[
        Column { heading: "CHECK", whole: true },
        Column { heading: "STATUS", whole: true },
        Column { heading: "DETAIL", whole: false },
    ]);
    for finding in findings {
        let (word, tone) = match finding.grade {
            Grade::Good => ("ok", Tone::Good),
            Grade::Note => ("note", Tone::Passing),
            Grade::Missing => ("missing", Tone::Bad),
        };
        table.row([
            (finding.check.into(), Tone::Plain),
            (word.into(), tone),
            (finding.detail.clone(), Tone::Plain),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_fails_where_anything_is_missing_or_the_settings_cannot_be_read() {
        let good = Finding { check: "qemu", grade: Grade::Good, detail: "10.0".into(), hint: None };
        let note = Finding { grade: Grade::Note, hint: Some("install it".into()), ..good.clone() };
        let missing = Finding { grade: Grade::Missing, ..note.clone() };
        for findings in [&[][..], &[good.clone(), note.clone()]] {
            assert_eq!(ended(findings, false).unwrap(), Exit::SUCCESS);
            assert_eq!(ended(findings, true).unwrap(), Exit::FAILURE);
        }
        for unread in [false, true] {
            let error = ended(&[good.clone(), note.clone(), missing.clone()], unread).unwrap_err();
            assert_eq!(error.hints, ["qemu: install it"]);
        }
    }
}

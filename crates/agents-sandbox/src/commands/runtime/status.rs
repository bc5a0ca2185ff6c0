//! `runtime status`: what is installed, and what makes new sandboxes.

use std::path::PathBuf;

use clap::Args;
use sandbox_config::Flags;
use sandbox_runtime_microsandbox::{Found, Installation};
use sandbox_runtime_qemu::kvm_hint;
use serde::Serialize;

use crate::app::App;
use crate::commands::CommandResult;
use crate::commands::list::Format;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::report::{Column, Table, Tone};
use crate::settings::Meant;
use crate::wiring::choice::{Decision, Driver, Host, Outcome, Trial, Why, decide};

/// Show what runs sandboxes here, and why
///
/// Starts nothing, installs nothing, and asks no network.
#[derive(Debug, Clone, Args)]
pub struct StatusArgs {
    /// Another form than lines
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<Format>,
}

#[derive(Debug, Serialize)]
struct Report {
    /// The setting `runtime`.
    setting: String,
    /// What makes new sandboxes; none where a first boot has yet to tell.
    used: Option<&'static str>,
    why: String,
    microsandbox: Microsandbox,
}

#[derive(Debug, Serialize)]
struct Microsandbox {
    version: &'static str,
    home: PathBuf,
    /// `installed`, `missing`, `damaged`.
    state: &'static str,
    problem: Option<String>,
    other_versions: Vec<String>,
    /// How the first boot went, where it was tried with this kernel and version.
    first_boot: Option<Outcome>,
}

pub fn run(app: &App, args: &StatusArgs) -> CommandResult {
    let settings = Meant::resolve(app, Flags::default())?.settings;
    let layout = App::layout()?;
    let installation = sandbox_runtime_microsandbox::installation(&layout)
        .map_err(|error| CommandError::from_chain(&error))?;
    let trial = Trial::read(&layout, &Host::here());
    let decision = decide(settings.runtime.value, &kvm_hint(), trial.outcome.as_ref());
    let report = report(settings.runtime.value.to_string(), decision, installation, trial.outcome);
    if args.format.is_some() {
        app.out.json(&report)?;
    } else {
        app.out.line(&table(&report).render())?;
    }
    Ok(Exit::SUCCESS)
}

fn report(
    setting: String,
    decision: Decision,
    installation: Installation,
    first_boot: Option<Outcome>,
) -> Report {
    let (used, why) = match decision {
        Decision::TryMicrosandbox => (None, "the next run tries a first boot of microsandbox".into()),
        Decision::Take(driver, why) => {
            let why = match why {
                Why::Set => format!("the setting `runtime` is {setting}"),
                Why::Proven => "a first boot has worked".into(),
                Why::Not(why) => why,
            };
            let name = match driver {
                Driver::Qemu => "qemu",
                Driver::Microsandbox => "microsandbox",
            };
            (Some(name), why)
        }
    };
    let (state, problem) = match installation.found {
        Found::Nothing => ("missing", None),
        Found::Whole(_) => ("installed", None),
        Found::Damaged(problem) => ("damaged", Some(problem)),
    };
    Report {
        setting,
        used,
        why,
        microsandbox: Microsandbox {
            version: installation.version,
            home: installation.home,
            state,
            problem,
            other_versions: installation.others,
            first_boot,
        },
    }
}

fn table(report: &Report) -> Table {
    let mut table = Table::new(&[
        Column { heading: "WHAT", whole: true },
        Column { heading: "STATUS", whole: true },
        Column { heading: "DETAIL", whole: false },
    ]);
    let used = report.used.unwrap_or("undecided");
    table.row([
        ("used for new sandboxes".into(), Tone::Plain),
        (used.into(), if report.used.is_some() { Tone::Good } else { Tone::Passing }),
        (report.why.clone(), Tone::Plain),
    ]);
    let msb = &report.microsandbox;
    let detail = msb.problem.clone().unwrap_or_else(|| msb.home.display().to_string());
    table.row([
        (format!("microsandbox {}", msb.version), Tone::Plain),
        (msb.state.into(), if msb.problem.is_some() { Tone::Bad } else { Tone::Plain }),
        (detail, Tone::Plain),
    ]);
    let (word, tone, detail) = match &msb.first_boot {
        None => ("untried", Tone::Plain, "no first boot with this kernel and version yet".to_string()),
        Some(Outcome::Works) => ("works", Tone::Good, "remembered for this kernel and version".into()),
        Some(Outcome::Fails(why)) => ("fails", Tone::Passing, why.clone()),
    };
    table.row([("its first boot".into(), Tone::Plain), (word.into(), tone), (detail, Tone::Plain)]);
    for version in &msb.other_versions {
        let text = "stays until the new version has started a sandbox";
        table.row([
            (format!("microsandbox {version}"), Tone::Plain),
            ("old".into(), Tone::Passing),
            (text.into(), Tone::Plain),
        ]);
    }
    table
}

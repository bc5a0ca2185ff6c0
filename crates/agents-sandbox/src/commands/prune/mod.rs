//! `prune` and the prunes of one kind: take back what nobody uses any more.

mod shown;

use std::time::Duration;

use clap::Args;
use sandbox_config::Flags;
use sandbox_image::EngineSetting;
use sandbox_lifecycle::prune::{Kinds, Plan, Report, Rules, carry_out, plan, snapshot};
use sandbox_model::{format_duration, parse_duration};

use super::CommandResult;
use super::list::Format;
use crate::app::App;
use crate::approval::{self, Purpose};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::settings::{self, Meant};
use crate::terminal::{can_ask, confirm};

/// What every prune takes.
#[derive(Debug, Clone, Args)]
pub struct PruneOptions {
    /// What was not used for so long, such as 24h, 7d or 2w [default: 7d, or what the settings say]
    #[arg(long, value_name = "AGE", value_parser = parse_age, allow_hyphen_values = true)]
    pub older_than: Option<Duration>,

    /// The former name of --older-than
    #[arg(long, short = 'a', value_name = "AGE", value_parser = parse_age, allow_hyphen_values = true, hide = true, conflicts_with = "older_than")]
    pub age: Option<Duration>,

    /// Say what would be removed, and remove nothing
    #[arg(long, short = 'n')]
    pub dry_run: bool,

    /// Another form than the table
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<Format>,
}

/// Remove sandboxes that were not used for long, with their homes and images
///
/// Takes sandboxes at rest that nobody used for a week, their home volumes and images, what tasks and killed
/// commands left, images that no sandbox needs, and memory that was saved longer ago than `memory-keep`. Shows it
/// and asks first. A home goes only with its own sandbox, and nothing that runs is touched.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  agents-sandbox prune --dry-run               see what would go, and how much it frees
  agents-sandbox prune                         see it, and be asked
  agents-sandbox prune --older-than 24h --yes  without a question, for scripts")]
pub struct PruneArgs {
    #[command(flatten)]
    pub options: PruneOptions,
}

/// Remove sandboxes that were not used for long, and those left over from tasks; homes and images stay
///
/// Memory that was saved longer ago than `memory-keep` goes, too.
#[derive(Debug, Clone, Args)]
#[command(name = "prune")]
pub struct SandboxPruneArgs {
    #[command(flatten)]
    pub options: PruneOptions,
}

/// Remove home volumes that a sandbox not used for long has left behind
///
/// A home that a sandbox mounts, or that is the current one of a sandbox, stays.
#[derive(Debug, Clone, Args)]
#[command(name = "prune")]
pub struct VolumePruneArgs {
    #[command(flatten)]
    pub options: PruneOptions,
}

/// Remove images that no sandbox needs; each can be built again
#[derive(Debug, Clone, Args)]
#[command(name = "prune")]
pub struct ImagePruneArgs {
    #[command(flatten)]
    pub options: PruneOptions,
}

/// An age as it is typed.
pub fn parse_age(text: &str) -> Result<Duration, String> {
    match parse_duration(text) {
        Ok(Duration::ZERO) => Err("it must be more than nothing, for example 1s".into()),
        Ok(age) => Ok(age),
        Err(error) => Err(error.to_string()),
    }
}

/// How old is too old, and which engine to ask, from what was typed and the settings.
#[derive(Debug, Clone, Copy)]
pub struct Age {
    pub older_than: Duration,
    memory_keep: Duration,
    pub engine: EngineSetting,
    yes: bool,
}

impl Age {
    /// A project's file decides over everybody's homes only when the user approved it.
    pub fn resolve(app: &App, typed: Option<Duration>, purpose: Purpose) -> Result<Self, CommandError> {
        let flags = Flags { older_than: typed.map(format_duration), ..Flags::default() };
        Self::of(app, &Meant::resolve(app, flags)?, typed, purpose)
    }

    /// For who only looks: a file of settings that cannot be read keeps nobody from that.
    pub fn look(app: &App, typed: Option<Duration>) -> Result<Self, CommandError> {
        let meant = Meant::resolve_whatever_files_say(app, &Flags::default())?;
        Self::of(app, &meant, typed, Purpose::Look)
    }

    fn of(app: &App, meant: &Meant, typed: Option<Duration>, purpose: Purpose) -> Result<Self, CommandError> {
        let the_projects =
            typed.is_none() && meant.is_the_projects(|settings| &settings.manual_prune_age.origin);
        if the_projects || meant.is_the_projects(|settings| &settings.memory_keep.origin) {
            approval::review(app, meant, purpose)?;
        }
        Ok(Self {
            older_than: typed.unwrap_or(meant.settings.manual_prune_age.value),
            memory_keep: meant.settings.memory_keep.value,
            engine: settings::same(meant.settings.image_engine.value)?,
            yes: meant.settings.yes.value,
        })
    }

    pub const fn rules(&self, kinds: Kinds) -> Rules {
        Rules { kinds, older_than: self.older_than, memory_keep: self.memory_keep, spare: None }
    }
}

pub fn run(app: &App, options: &PruneOptions, kinds: Kinds) -> CommandResult {
    let typed = options.older_than.or(options.age);
    let purpose = if options.dry_run { Purpose::Look } else { Purpose::Use };
    let age = Age::resolve(app, typed, purpose)?;
    let ask = !options.dry_run && !age.yes;
    if ask && !can_ask() {
        return Err(CommandError::new("nothing was removed: there is no terminal to ask on")
            .hint("`agents-sandbox prune --yes` removes without asking")
            .hint("`agents-sandbox prune --dry-run` shows what would be removed"));
    }
    let context = app.context()?;
    let seen = snapshot(&context, kinds.images.then_some(age.engine))?;
    if let Some(problem) = &seen.engine_problem {
        app.console.verbose(&format!("the image engine was not asked: {problem}"));
    }
    let plan = plan(&seen, &age.rules(kinds));
    if plan.is_empty() {
        if options.format.is_some() {
            app.out.json(&shown::Document::of_report(&Report::default(), options.dry_run))?;
        } else {
            app.console.info(
                "there is nothing to remove; `agents-sandbox storage list` says why what is there stays",
            );
        }
        return Ok(Exit::SUCCESS);
    }
    if options.dry_run {
        return preview(app, &plan, options);
    }
    if ask && !agreed(app, &plan)? {
        app.console.info("nothing was removed");
        return Ok(Exit::SUCCESS);
    }
    let report = carry_out(&context, age.engine, &plan);
    tell(app, &report, options)
}

fn preview(app: &App, plan: &Plan, options: &PruneOptions) -> CommandResult {
    if options.format.is_some() {
        app.out.json(&shown::Document::of_plan(plan))?;
    } else {
        app.out.line(&shown::table(plan).render())?;
        app.console.info(&format!("would remove {}, {}", shown::counts_of(plan), plan.size().human()));
    }
    Ok(Exit::SUCCESS)
}

fn agreed(app: &App, plan: &Plan) -> Result<bool, CommandError> {
    app.console.lines().write(&shown::table(plan).render_plain());
    let homes = plan.volumes.len();
    if homes > 0 {
        let what = if homes == 1 { "a home volume" } else { "home volumes" };
        app.console.warning(&format!("{what}: the agent's settings, sessions and files in it are lost"));
    }
    let question = format!("Remove {}, {}?", shown::counts_of(plan), plan.size().human());
    match confirm(&question)? {
        Some(answer) => Ok(answer),
        None => Err(CommandError { exit: Exit::from_signal(2), ..CommandError::new("interrupted") }),
    }
}

fn tell(app: &App, report: &Report, options: &PruneOptions) -> CommandResult {
    if options.format.is_some() {
        app.out.json(&shown::Document::of_report(report, false))?;
    } else {
        app.console.info(&format!(
            "removed {}; {} are free",
            shown::counts_of_report(report),
            report.freed.human()
        ));
    }
    for spared in &report.spared {
        app.console.info(&format!("{} stays: {}", spared.what, spared.why));
    }
    if report.failures.is_empty() {
        return Ok(Exit::SUCCESS);
    }
    let lines: Vec<String> = report.failures.iter().map(ToString::to_string).collect();
    Err(CommandError::new("not everything could be removed")
        .excerpt(&lines.join("\n"))
        .hint("`agents-sandbox prune --log-level verbose` says more"))
}

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sandbox_image::EngineSetting;
use sandbox_state::{Stamp, write_private};

use super::carry_out::carry_out_with;
use super::{Kinds, Report, Rules, plan, snapshot};
use crate::locks::Patience;
use crate::{Context, Result, Silent, Target};

/// How long a sandbox may rest where no setting says more.
pub const AUTO_PRUNE_AGE: Duration = Duration::from_hours(30 * 24);

/// An engine that answers slowly is not asked before every run.
const ENGINE_EVERY: i64 = 24 * 60 * 60;

/// How to prune before a run.
#[derive(Debug, Clone)]
pub struct AutoPrune {
    /// `auto-prune-age`, or [`AUTO_PRUNE_AGE`].
    pub older_than: Duration,
    /// `memory-keep`.
    pub memory_keep: Duration,
    /// The one to ask for images that no name leads to.
    pub engine: EngineSetting,
    /// Only find out, remove nothing.
    pub dry_run: bool,
    /// What the run is about to start: it stays, however old it is.
    pub about_to_run: Target,
}

/// Prunes as the first act of a run: once per process, without a word but in detail, waiting for nobody,
/// and never in the run's way.
pub fn auto_prune(context: &Context<'_>, how: &AutoPrune) {
    static DONE: AtomicBool = AtomicBool::new(false);
    if !DONE.swap(true, Ordering::Relaxed) {
        tell(context, &prune(context, how));
    }
}

fn tell(context: &Context<'_>, done: &Result<Report>) {
    let say = |text: &str| context.reporter.verbose(&format!("pruning: {text}"));
    match done {
        Err(error) => say(&crate::error::chain(error)),
        Ok(report) => {
            let (sandboxes, volumes) = (report.sandboxes.len(), report.volumes.len());
            let images = report.images.len() + report.unnamed.len();
            say(&format!("removed {sandboxes} sandboxes, {volumes} home volumes and {images} images"));
            for name in &report.memories {
                say(&format!("the memory of {name} was saved long ago and is dropped"));
            }
            for failure in &report.failures {
                say(&failure.to_string());
            }
        }
    }
}

pub(super) fn prune(context: &Context<'_>, how: &AutoPrune) -> Result<Report> {
    let silent = Context {
        layout: context.layout.clone(),
        runtime: context.runtime.clone(),
        images: context.images.clone(),
        program: context.program.clone(),
        version: context.version,
        identity: context.identity,
        reporter: &Silent,
    };
    let ask = !how.dry_run && ask_engine(context);
    let seen = snapshot(&silent, ask.then_some(how.engine))?;
    let rules = Rules {
        kinds: Kinds::ALL,
        older_than: how.older_than,
        memory_keep: how.memory_keep,
        spare: Some(how.about_to_run.clone()),
    };
    let plan = plan(&seen, &rules);
    if how.dry_run {
        context.reporter.verbose(&format!("pruning would free {}", plan.size().human()));
        return Ok(Report::default());
    }
    if ask {
        write_private(&context.layout.engine_pruned(), b"")?;
    }
    Ok(carry_out_with(&silent, how.engine, &plan, Patience::None))
}

fn ask_engine(context: &Context<'_>) -> bool {
    let asked = std::fs::metadata(context.layout.engine_pruned()).and_then(|file| file.modified());
    let seconds = asked.ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
    let seconds = seconds.and_then(|since| i64::try_from(since.as_secs()).ok());
    seconds.is_none_or(|at| Stamp::now().saturating_sub(at).unsigned_abs() >= ENGINE_EVERY.unsigned_abs())
}

//! What this computer has of what sandboxes need. Every check is made, whatever the others say.

mod accelerator;
mod agent;
mod answers;
mod credentials;
mod disk;
mod engine;
mod folders;
mod host_kernel;
mod kernel;
mod programs;
mod proxy;
mod qemu;
mod runtime;
mod secrets;
mod users;

use sandbox_config::Settings;
use sandbox_lifecycle::Project;
use sandbox_state::Layout;
use serde::Serialize;

use crate::error::CommandError;

/// From good to bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Grade {
    Good,
    /// It works, less well than it could.
    Note,
    /// Nothing works without it.
    Missing,
}

/// What one look found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub check: &'static str,
    pub grade: Grade,
    pub detail: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Finding {
    fn good(check: &'static str, detail: impl Into<String>) -> Self {
        Self { check, grade: Grade::Good, detail: detail.into(), hint: None }
    }

    fn note(check: &'static str, detail: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { check, grade: Grade::Note, detail: detail.into(), hint: Some(hint.into()) }
    }

    pub fn missing(check: &'static str, detail: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { check, grade: Grade::Missing, detail: detail.into(), hint: Some(hint.into()) }
    }
}

/// Everything there is to look at. Starts no machine, changes nothing, asks nobody on the network but whether the
/// proxy is there.
///
/// `project` is the one in the current folder, where there is one.
pub fn examine(layout: &Layout, settings: &Settings, project: Option<&Project>) -> Vec<Finding> {
    let engine = engine::check(settings);
    let mut findings = vec![
        host_kernel::check(),
        qemu::check(),
        accelerator::check(),
        runtime::check(layout, settings),
        kernel::check(layout, settings),
        programs::mke2fs(),
        engine.finding,
        programs::bootstrap(settings),
        users::check(engine.rootless),
        folders::check(layout),
        disk::check(layout),
    ];
    findings.extend(answers::check(layout));
    findings.extend(project.and_then(|project| agent::check(layout, settings, project)));
    let folder = project.map(|project| project.config_dir.as_path());
    findings.extend(credentials::check(layout, settings, folder));
    findings.extend(secrets::check(layout, folder));
    findings.extend(proxy::check(settings));
    findings
}

/// All that is missing as one error, with a hint for each; `None` where sandboxes can work.
pub fn lacking(findings: &[Finding]) -> Option<CommandError> {
    let missing: Vec<&Finding> = findings.iter().filter(|finding| finding.grade == Grade::Missing).collect();
    if missing.is_empty() {
        return None;
    }
    let what: Vec<&str> = missing.iter().map(|finding| finding.check).collect();
    let error = CommandError::new(format!("sandboxes cannot work here yet: {}", what.join(", ")));
    Some(missing.iter().fold(error, |error, finding| {
        error.hint(format!("{}: {}", finding.check, finding.hint.as_deref().unwrap_or_default()))
    }))
}

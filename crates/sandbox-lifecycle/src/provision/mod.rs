//! The agent's configuration and the user's files, from the host into the guest's home.
//!
//! ```text
//! habits < host configuration < user < repository < project < home mappings      (assembly)
//!    └─ minus what the home has already (record) ─► one transfer ─► record        (bundle, transfer)
//! ```

mod assembly;
mod bundle;
mod hooks;
mod host_files;
mod merge;
mod place;
mod restart;
mod transfer;
mod walls;

use std::ops::ControlFlow;

use sandbox_state::{ProjectState, ProvisionRecord, SandboxFiles, read_record, write_record};

use crate::locks::boot_lock;
use crate::{Context, LifecycleError, Result, Up, UpRequest};

pub use assembly::{Assembly, Fate, Hook, Item, Layer, assemble};
pub use hooks::{StartupHook, startup_hooks};
pub use host_files::open_host_file;
pub use walls::walls;

use bundle::Bundle;
use restart::{Answer, Restart, check_still_up, may_restart};
use transfer::transfer;

/// What [`provision`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provisioned {
    /// What is in the sandbox is what the host has.
    Unchanged,
    /// So many files were written and removed. The agent's server reads them when it next starts.
    Changed { written: usize, removed: usize },
}

/// Copies into the guest's home, in one transfer, what changed since the last time; what was copied and is no
/// longer there on the host is removed. What the agent itself changed in a file stays until the host's
/// file changes.
///
/// A server that runs with the former configuration is forgotten, so that [`crate::ensure_daemon`] starts it
/// anew, where nobody else is attached and no session is at work, or [`crate::Decisions::server`] says so. While a
/// person is asked no lock is held; a sandbox that is stopped meanwhile is [`LifecycleError::EndedMeanwhile`].
pub fn provision(context: &Context<'_>, request: &UpRequest, up: &Up) -> Result<(Provisioned, Assembly)> {
    let mounts = &request.settings.mounts;
    let assembly = assemble(&context.layout, &request.project, mounts, request.agent, &request.provision)?;
    for warning in &assembly.warnings {
        context.reporter.warning(&format!("not copied into the sandbox: {warning}"));
    }
    let done = send(context, request, up, &assembly)?;
    Ok((done, assembly))
}

fn send(context: &Context<'_>, request: &UpRequest, up: &Up, assembly: &Assembly) -> Result<Provisioned> {
    let target = request.target();
    let files = context.layout.sandbox_state(&target.checkout, target.agent);
    let compare = || {
        let home = read_record::<ProjectState>(&files.state())?.unwrap_or_default().home_volume;
        let record = read_record::<ProvisionRecord>(&files.provision())?.unwrap_or_default();
        let bundle = Bundle::new(assembly, &record, home.as_ref())?;
        Ok::<_, LifecycleError>((home, record, bundle))
    };
    if compare()?.2.is_empty() {
        return Ok(Provisioned::Unchanged);
    }
    let mut answer: Option<Answer> = None;
    let (_lock, (home, mut record, bundle), restart) = loop {
        let lock = boot_lock(context, &target, request.verb)?;
        if answer.is_some() {
            check_still_up(context, up)?;
        }
        let found = compare()?;
        let meant = answer.as_ref().is_some_and(|answer| answer.restarts(&files));
        let served = files.daemon().exists() && (meant || found.2.touches(up.profile.config.guest_dir));
        if !served {
            break (lock, found, None);
        }
        match may_restart(context, request, up, &files, answer.as_ref())? {
            ControlFlow::Continue(restart) => break (lock, found, Some(restart)),
            ControlFlow::Break(question) => {
                drop(lock);
                answer = Some(question.ask(context)?);
            }
        }
    };
    if bundle.is_empty() {
        forget_server(context, &files, restart)?;
        return Ok(Provisioned::Unchanged);
    }
    let step = context.reporter.begin("copying configuration into the sandbox");
    transfer(context.runtime.as_ref(), &up.name, &bundle)
        .map_err(|problem| LifecycleError::Provision { agent: request.agent, problem })?;
    let done = Provisioned::Changed { written: bundle.written.len(), removed: bundle.removed.len() };
    step.finish(Some(&format!("{} files", bundle.written.len())));
    record.home_volume = home;
    record.files = bundle.files;
    write_record(&files.provision(), &record)?;
    forget_server(context, &files, restart)?;
    Ok(done)
}

/// So that it is started anew, where it may.
fn forget_server(context: &Context<'_>, files: &SandboxFiles, restart: Option<Restart>) -> Result<()> {
    match restart {
        Some(Restart::Now) => fs_err::remove_file(files.daemon())?,
        Some(Restart::Later) => context
            .reporter
            .info("the agent is in use, so it reads the new configuration when it next starts"),
        None => {}
    }
    Ok(())
}

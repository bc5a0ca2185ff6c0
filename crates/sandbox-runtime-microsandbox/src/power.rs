//! Ending a machine: by `msb`, and by its process where `msb` does not answer.

use std::time::Duration;

use sandbox_model::SandboxName;
use sandbox_runtime::{RuntimeError, StopOutcome};

use crate::call::{Msb, failed};
use crate::command;
use crate::files::Files;
use crate::machine;
use crate::outlet;
use crate::record::Life;
use crate::roster::Roster;

/// Asks the guest to end, and powers it off where it does not. The change lock is the caller's.
pub fn stop(
    files: &Files,
    msb: &Msb,
    name: &SandboxName,
    grace: Duration,
) -> Result<StopOutcome, RuntimeError> {
    let paths = files.sandbox(name);
    machine::forget(&paths)?;
    match msb.try_run(&command::stop(name, grace), grace + msb.patience.ask) {
        Ok(said) if said.code == Some(0) => {}
        // It ended by itself while it was asked to.
        Ok(_) if is_at_rest(files, msb, name) => {}
        Ok(_) | Err(RuntimeError::NoAnswer { .. }) => {
            off(files, msb, name)?;
            return Ok(StopOutcome::Forced);
        }
        Err(error) => return Err(error),
    }
    machine::note_rest(&paths)?;
    Ok(StopOutcome::Graceful)
}

/// Whether a sandbox that counts as at rest has a machine all the same: what a start that was killed left half done, or
/// one without its outlet.
pub fn is_half_up(files: &Files, name: &SandboxName) -> Result<bool, RuntimeError> {
    let paths = files.sandbox(name);
    let is_half = match Life::read(&paths) {
        Some(Life::Starting) => true,
        Some(Life::Served) => outlet::is_lost(&paths)?,
        _ => false,
    };
    Ok(is_half && machine::is_there(&files.home.dir, name))
}

/// Powers off at once.
pub fn off(files: &Files, msb: &Msb, name: &SandboxName) -> Result<(), RuntimeError> {
    let paths = files.sandbox(name);
    machine::forget(&paths)?;
    let line = command::power_off(name);
    match msb.try_run(&line, msb.patience.ask) {
        Ok(said) if said.code == Some(0) || is_at_rest(files, msb, name) => {}
        Ok(said) => return Err(failed(&line, &said)),
        Err(RuntimeError::NoAnswer { .. }) if machine::end(&files.home.dir, name) => {}
        Err(error) => return Err(error),
    }
    machine::note_rest(&paths)
}

/// What nobody knows is not at rest.
fn is_at_rest(files: &Files, msb: &Msb, name: &SandboxName) -> bool {
    let status = Roster::ask(msb).and_then(|roster| roster.status(&files.sandbox(name), name.as_str()));
    status.is_ok_and(|(status, _)| status.is_at_rest())
}

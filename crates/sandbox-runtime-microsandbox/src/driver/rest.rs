//! Ending a sandbox whose change lock is held.

use std::time::Duration;

use sandbox_model::SandboxName;
use sandbox_runtime::{Result, StopOutcome};

use super::MsbRuntime;
use crate::{link_process, power};

impl MsbRuntime {
    pub(super) fn end(&self, name: &SandboxName, grace: Duration) -> Result<StopOutcome> {
        let outcome = power::stop(&self.files, &self.msb()?, name, grace)?;
        self.forget_link(name);
        link_process::end(&self.paths(name));
        Ok(outcome)
    }

    /// Of one that counts as at rest: nobody could use a machine that is there all the same, so it gets no grace.
    pub(super) fn end_half(&self, name: &SandboxName) -> Result<StopOutcome> {
        if !power::is_half_up(&self.files, name)? {
            return Ok(StopOutcome::AlreadyAtRest);
        }
        power::off(&self.files, &self.msb()?, name)?;
        self.forget_link(name);
        link_process::end(&self.paths(name));
        Ok(StopOutcome::Forced)
    }
}

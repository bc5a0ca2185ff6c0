//! Starting a sandbox.

use sandbox_model::{Proxies, SandboxName, SecretValues, Status};
use sandbox_runtime::{Result, StopOutcome, check_secrets};
use sandbox_state::LockMode;

use super::MsbRuntime;
use crate::outlet::link::Outlet;
use crate::roster::Roster;
use crate::{boot, guest_program, link_process, machine, told};

impl MsbRuntime {
    /// Up, with everything that serves it.
    pub(super) fn begin(
        &self,
        name: &SandboxName,
        values: &SecretValues,
        proxies: Option<&Proxies>,
    ) -> Result<()> {
        let (paths, _) = self.existing(name)?;
        // Whoever starts it holds this lock until it is up.
        let _lock = Self::change_lock(&paths, LockMode::Exclusive)?;
        let (paths, record) = self.existing(name)?;
        let roster = Roster::before_a_start(&paths, || self.msb())?;
        let (status, problem) = roster.status(&paths, name.as_str())?;
        match status {
            // Whoever started it may not have noted it.
            Status::Running => machine::note(&self.files.home.dir, &paths, name),
            status if status.is_at_rest() => {
                self.forget_link(name);
                let id = guest_program::provide(&self.files, self.options.guest_program)?;
                let known = roster.knows(name.as_str());
                check_secrets(&record.spec, values)?;
                if record.spec.sleep
                    && let Some(notice) = told::no_sleep(&self.files)?
                {
                    (self.options.notice)(notice);
                }
                if self.end_half(name)? == StopOutcome::Forced {
                    (self.options.notice)(&told::boots_anew(problem.as_deref()));
                }
                let program = self.options.program.as_deref();
                link_process::begin(program, &self.files, &self.msb()?, &record, &id)?;
                let boot = || {
                    let outlet = Outlet::start(&paths, &self.options, &record.spec, values, proxies)?;
                    let msb = self.msb()?.for_boot(values, outlet.as_ref().map(|outlet| &outlet.password));
                    let given = boot::Given { known, outlet, program_id: &id };
                    boot::boot(&self.files, &paths, &self.options, &msb, &record.spec, given)
                };
                // Whoever hears that it failed can have its ports.
                boot().inspect_err(|_| link_process::end(&paths))?;
                // It may not have lived so long.
                if !record.spec.ports.is_empty() {
                    self.begin_missing_link(&record, &id)?;
                }
                self.retire_old_versions();
                Ok(())
            }
            status => Err(Self::wrong(name, status, "start")),
        }
    }
}

//! Ports of a sandbox that change without a start.

use sandbox_model::{PortForward, SandboxName};
use sandbox_runtime::{Result, RuntimeError};
use sandbox_state::LockMode;

use super::MsbRuntime;
use crate::record::SandboxRecord;
use crate::{guest_program, link_process};

impl MsbRuntime {
    /// Has the link process of a sandbox that runs open and close ports, and then the record say so. `added` are those
    /// to open that no setting has.
    pub(super) fn publish(
        &self,
        name: &SandboxName,
        open: &[PortForward],
        close: &[PortForward],
        added: bool,
    ) -> Result<()> {
        let (paths, _) = self.existing(name)?;
        let _lock = Self::change_lock(&paths, LockMode::Exclusive)?;
        let (paths, record) = self.existing(name)?;
        if !self.status(&paths, name)?.is_at_rest() {
            if self.options.program.is_none() || link_process::by_msb(&paths) {
                return Err(RuntimeError::Unsupported(link_process::AT_THE_NEXT_START));
            }
            let id = guest_program::provide(&self.files, self.options.guest_program)?;
            if !self.begin_missing_link(&record, &id)? {
                return Err(RuntimeError::other("there is no process that could serve the sandbox's ports"));
            }
            link_process::change_ports(&paths, open, close, self.options.patience.ask)?;
        }
        let mut record = record.with(|spec| spec.change_ports(open, close));
        record.added_ports.retain(|port| !(close.contains(port) || added && open.contains(port)));
        if added {
            record.added_ports.extend(open);
        }
        record.write(&paths)
    }

    /// Where a sandbox runs without one: for the next commands, and for its ports.
    pub(super) fn begin_missing_link(&self, record: &SandboxRecord, guest_program: &str) -> Result<bool> {
        let (program, msb) = (self.options.program.as_deref(), self.msb()?);
        let notice = &*self.options.notice;
        Ok(link_process::begin_missing(program, &self.files, &msb, record, guest_program, notice))
    }
}

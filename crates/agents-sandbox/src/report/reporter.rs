use sandbox_lifecycle::{Decisions, KeepAll, Reporter, Step};
use sandbox_model::SandboxName;

use super::step::RunningStep;
use super::{Console, plain};
use crate::terminal::interrupted;

impl Reporter for Console {
    fn begin(&self, title: &str) -> Box<dyn Step + '_> {
        Box::new(RunningStep::new(self, plain(title)))
    }

    fn info(&self, text: &str) {
        Self::info(self, text);
    }

    fn warning(&self, text: &str) {
        Self::warning(self, text);
    }

    fn postponed(&self, sandbox: &SandboxName, text: &str) {
        // By its name: it may be another agent's than the settings'.
        let command = format!("agents-sandbox stop --cold {sandbox}");
        Self::warning(self, &format!("{text}; after `{command}` the next run applies it"));
    }

    fn verbose(&self, text: &str) {
        Self::verbose(self, text);
    }

    fn cancelled(&self) -> bool {
        interrupted().is_some()
    }

    /// `yes` answers questions of yes and no; among several ways only a person chooses.
    fn decisions(&self) -> &dyn Decisions {
        if self.may_ask() { self } else { &KeepAll }
    }
}

use sandbox_lifecycle::{Reporter, Step};

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

    fn verbose(&self, text: &str) {
        Self::verbose(self, text);
    }

    fn cancelled(&self) -> bool {
        interrupted().is_some()
    }
}

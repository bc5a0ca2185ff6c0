//! `doctor`: is everything there that a sandbox needs?

use clap::Args;

use super::CommandResult;
use super::list::Format;
use crate::app::App;

/// Check that this computer has all that is needed
#[derive(Debug, Clone, Args)]
pub struct DoctorArgs {
    /// Another form than lines
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<Format>,
}

pub fn run(app: &App, args: &DoctorArgs) -> CommandResult {
    let _ = (app, args);
    Err(crate::error::CommandError::new("nothing is checked yet"))
}

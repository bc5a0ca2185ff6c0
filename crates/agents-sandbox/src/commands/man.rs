//! `man`: the manual pages, for packagers.

use std::path::PathBuf;

use clap::{Args, CommandFactory};
use clap_mangen::Man;

use super::{Cli, CommandResult};
use crate::app::App;
use crate::exit::Exit;

/// Print the manual page, or write the pages of all commands into a folder
#[derive(Debug, Clone, Args)]
#[command(hide = true)]
pub struct ManArgs {
    /// Where to write them
    #[arg(value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

pub fn run(app: &App, args: &ManArgs) -> CommandResult {
    if let Some(dir) = &args.dir {
        fs_err::create_dir_all(dir)?;
        clap_mangen::generate_to(Cli::command(), dir)?;
    } else {
        let mut page = Vec::new();
        Man::new(Cli::command()).render(&mut page)?;
        app.out.bytes(&page)?;
    }
    Ok(Exit::SUCCESS)
}

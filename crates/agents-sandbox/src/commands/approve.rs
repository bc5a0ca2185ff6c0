//! `config approve`: let the project's own files widen what its sandbox may do.

use clap::Args;
use sandbox_config::Flags;

use super::CommandResult;
use crate::app::App;
use crate::approval::Review;
use crate::exit::Exit;
use crate::report::{Column, Table, Tone};
use crate::settings::Meant;

/// Approve what the project's own files widen
///
/// Whoever works in a sandbox can change the project's `.agents-sandbox` folder. What these files open to the
/// sandbox takes effect only after you have approved it; what changes has to be approved again.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  agents-sandbox config approve                show what is not approved yet, and ask
  agents-sandbox config approve --list         see all of it, and ask nothing
  agents-sandbox config approve --yes          approve it, where nobody can be asked")]
pub struct ApproveArgs {
    /// Only show what the project's files widen, and whether it is approved
    #[arg(long)]
    pub list: bool,
}

pub fn run(app: &App, args: &ApproveArgs) -> CommandResult {
    let meant = Meant::resolve(app, Flags::default())?;
    let mut review = Review::of(&meant)?;
    if review.entries().next().is_none() {
        app.console.info("this project's files widen nothing");
    }
    if args.list {
        return list(app, &review);
    }
    let approved = review.settle(app, &meant.settings.yes)?;
    if approved == 0 && review.entries().next().is_some() {
        app.console.info("everything that this project's files widen is approved");
    }
    Ok(Exit::SUCCESS)
}

fn list(app: &App, review: &Review) -> CommandResult {
    let columns = [("APPROVED", true), ("FILE", true), ("SETTING", true), ("VALUE", false)];
    let mut table = Table::new(&columns.map(|(heading, whole)| Column { heading, whole }));
    for (entry, approved) in review.entries() {
        let (word, tone) = if approved { ("yes", Tone::Good) } else { ("no", Tone::Bad) };
        let texts = [entry.place(), entry.key(), entry.text()];
        let rest = texts.map(|text| (text.to_owned(), Tone::Plain));
        table.row([(word.to_owned(), tone)].into_iter().chain(rest));
    }
    if review.entries().next().is_some() {
        app.out.line(&table.render())?;
    }
    Ok(Exit::SUCCESS)
}

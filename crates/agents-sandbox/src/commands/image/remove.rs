//! `image remove`: delete an image by reference.

use clap::Args;
use sandbox_lifecycle::{RemovedImage, remove_image};
use sandbox_model::ImageRef;

use crate::app::App;
use crate::commands::CommandResult;
use crate::exit::Exit;

/// Remove an image; one that a sandbox is made from is refused
///
/// The next run that needs it builds it again, or takes what the image engine still has. Where one image has several
/// names, only this one goes, and the image stays under the others.
#[derive(Debug, Clone, Args)]
#[command(visible_alias = "rm")]
pub struct ImageRemoveArgs {
    /// Its reference, as `agents-sandbox image list` shows it
    #[arg(value_name = "REFERENCE")]
    pub reference: ImageRef,

    /// Say what would be done, and do nothing
    #[arg(long, short = 'n')]
    pub dry_run: bool,
}

/// So many of the other names are told.
const NAMED: usize = 3;

pub fn run(app: &App, args: &ImageRemoveArgs) -> CommandResult {
    let freed = match remove_image(&app.context()?, &args.reference, args.dry_run)? {
        RemovedImage::Freed(size) => format!("{} free", size.human()),
        RemovedImage::Named(names) => format!("the image stays as {}", shown(&names)),
    };
    let text = if args.dry_run {
        format!("would remove {}; {freed}", args.reference)
    } else {
        format!("{} is removed; {freed}", args.reference)
    };
    app.console.info(&text);
    Ok(Exit::SUCCESS)
}

fn shown(names: &[ImageRef]) -> String {
    let first: Vec<String> = names.iter().take(NAMED).map(ToString::to_string).collect();
    let more = names.len() - first.len();
    if more > 0 { format!("{} and {more} more", first.join(", ")) } else { first.join(", ") }
}

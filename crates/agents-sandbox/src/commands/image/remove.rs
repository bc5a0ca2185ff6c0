//! `image remove`: delete an image by reference.

use clap::Args;
use sandbox_lifecycle::remove_image;
use sandbox_model::ImageRef;

use crate::app::App;
use crate::commands::CommandResult;
use crate::exit::Exit;

/// Remove an image; one that a sandbox is made from is refused
///
/// The next run that needs it builds it again, or takes what the image engine still has.
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

pub fn run(app: &App, args: &ImageRemoveArgs) -> CommandResult {
    let freed = remove_image(&app.context()?, &args.reference, args.dry_run)?;
    let freed = match freed.bytes() {
        0 => "another image has the same content, which stays".to_owned(),
        _ => format!("{} free", freed.human()),
    };
    let text = if args.dry_run {
        format!("would remove {}; {freed}", args.reference)
    } else {
        format!("{} is removed; {freed}", args.reference)
    };
    app.console.info(&text);
    Ok(Exit::SUCCESS)
}

//! `volume edit`: a new home, filled by hand.

use std::collections::BTreeMap;

use clap::Args;
use sandbox_lifecycle::volumes::{GUEST_OLD_HOME, abandon, edit};

use super::replace::{ReplaceArgs, tell};
use crate::app::App;
use crate::commands::{CommandResult, prepare};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::terminal::{Ended, attach, describe_terminal, interruptible, terminal_size};

/// Make a new home from the image, and move files over by hand in a shell
///
/// Opens a shell in a throw-away sandbox: its home is the new volume, and the files of the old one are at
/// /mnt/old-home, read-only. `exit` makes the new home the project's; `exit 1` gives it up.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  agents-sandbox volume edit
  echo 'cp -a /mnt/old-home/.config ~' | agents-sandbox volume edit --rm")]
pub struct EditArgs {
    #[command(flatten)]
    pub replace: ReplaceArgs,
}

pub fn run(app: &App, args: &EditArgs) -> CommandResult {
    let (meant, wish) = args.replace.wish(app)?;
    if args.replace.dry_run {
        return args.replace.preview(app, &wish, "with what you move over in a shell");
    }
    let context = app.context_for(&meant.settings)?;
    let interruptible = interruptible(abandon)?;
    let edit = edit(&context, &wish)?;
    drop(interruptible);
    let streams = prepare::streams();
    let tty = streams.tty.then(terminal_size).flatten();
    app.console.info(&format!(
        "the old home's files are at {GUEST_OLD_HOME}; `exit` takes the new home, `exit 1` gives it up"
    ));
    let mut shell = edit.shell(tty);
    describe_terminal(&mut shell, &BTreeMap::new());
    let session = context.runtime.exec(edit.sandbox(), &shell)?;
    match attach(session, streams)? {
        Ended::Exited(status) if status.shell_code() == 0 => Ok(tell(app, &edit.commit()?)),
        Ended::Exited(status) => {
            drop(edit);
            let code = status.shell_code();
            Err(CommandError::new(format!("the shell ended with code {code}: the home volume is as it was")))
        }
        Ended::Signal(signal) => Ok(Exit::from_signal(u8::try_from(signal).unwrap_or(u8::MAX))),
        Ended::Detached | Ended::ReaderGone => Ok(Exit::from_signal(13)),
        Ended::Lost(error) => Err(error.into()),
    }
}

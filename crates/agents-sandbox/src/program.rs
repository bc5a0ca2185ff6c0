//! From words to an exit code.

use std::ffi::OsString;

use crate::app::App;
use crate::commands::{self, Typed};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::internal;
use crate::terminal::interrupted;

/// `words` are those of the process, the program's own name first.
pub fn main(words: Vec<OsString>) -> Exit {
    if let Some(exit) = internal::run(&words) {
        return exit;
    }
    sandbox_state::crash::arm();
    match commands::parse(words) {
        Ok(typed) => run(&typed),
        Err(error) => {
            // Help and versions go to stdout, usage errors to stderr; a reader that left is no failure.
            let _ = error.print();
            u8::try_from(error.exit_code()).map_or(Exit::USAGE, Exit)
        }
    }
}

fn run(typed: &Typed) -> Exit {
    let (app, wrong) = App::new(&typed.global);
    for error in wrong {
        if !typed.command.ends_or_looks() {
            app.console.error(&error.render());
            return error.exit;
        }
        app.console.warning(&format!("{}; it is left out", error.message));
    }
    match commands::dispatch(&app, &typed.command) {
        Ok(exit) => exit,
        // What failed then failed because of it.
        Err(_) if let Some(exit) = interrupted() => {
            app.console.error(&CommandError::new("interrupted").render());
            exit
        }
        Err(error) => {
            if !error.silent {
                app.console.error(&error.render());
            }
            error.exit
        }
    }
}

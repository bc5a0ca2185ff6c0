//! The background processes: this same program under a hidden verb, dispatched before the command line is
//! read. Each takes its configuration as one JSON document on stdin.

use std::ffi::OsString;
use std::io::Write;

use crate::exit::Exit;

/// Runs `internal VERB …`; `None` when the words are a person's.
pub fn run(words: &[OsString]) -> Option<Exit> {
    let [_, internal, verb, arguments @ ..] = words else { return None };
    if internal != "internal" {
        return None;
    }
    let result = match verb.to_str() {
        Some(other) => {
            Err(format!("there is no background process `{other}` ({} arguments)", arguments.len()))
        }
        None => Err("the name of a background process must be text".into()),
    };
    Some(finish(result))
}

/// Nobody reads these but the process that started this one, and the log it keeps.
fn finish(result: Result<(), String>) -> Exit {
    match result {
        Ok(()) => Exit::SUCCESS,
        Err(problem) => {
            let _ = writeln!(std::io::stderr(), "error: {problem}");
            Exit::FAILURE
        }
    }
}

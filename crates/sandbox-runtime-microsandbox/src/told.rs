//! What users are told once, however many sandboxes they have.

use sandbox_runtime::RuntimeError;
use sandbox_state::{read_record, write_record};
use serde::{Deserialize, Serialize};

use crate::error::from_state;
use crate::files::Files;

/// `told.json`.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Told {
    no_sleep: bool,
}

/// To be said where a machine that was up had to end first, for that problem.
pub fn boots_anew(problem: Option<&str>) -> String {
    format!("the sandbox boots anew: {}", problem.unwrap_or("its machine was in no good order"))
}

/// To be said at a start of a sandbox that was to sleep, the first time.
pub fn no_sleep(files: &Files) -> Result<Option<&'static str>, RuntimeError> {
    // A record that cannot be read costs the user a line to read again.
    let told: Told = read_record(&files.told()).unwrap_or_default().unwrap_or_default();
    if told.no_sleep {
        return Ok(None);
    }
    write_record(&files.told(), &Told { no_sleep: true }).map_err(from_state)?;
    Ok(Some("the sandbox stops without saving its memory: microsandbox cannot save it, QEMU can"))
}

//! A program in the place of microsandbox's, for tests of what becomes of one that fails. Only in builds for
//! development.

use std::time::Duration;

use sandbox_runtime_microsandbox::{MsbOptions, Patience};

/// How many milliseconds a call may take, a space, and the program's path.
const MSB: &str = "AGENTS_SANDBOX_STAND_IN_MSB";

pub fn replace(options: MsbOptions) -> MsbOptions {
    let wish = std::env::var(MSB).ok();
    let parts = wish.as_deref().and_then(|text| text.split_once(' '));
    let Some((Ok(millis), path)) = parts.map(|(millis, path)| (millis.parse(), path)) else { return options };
    let (limit, path) = (Duration::from_millis(millis), std::path::PathBuf::from(path));
    let patience = Patience { ask: limit, work: limit, load: limit };
    MsbOptions { msb: Box::new(move || Ok(path.clone())), patience, ..options }
}

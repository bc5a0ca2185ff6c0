//! Where the tests of one user keep what they make.

use std::path::PathBuf;

use sandbox_state::{Environment, Layout};

/// Set for the ordinary user, who cannot reach the build's folder.
pub const PLACE: &str = "AGENTS_SANDBOX_VM_PLACE";
/// The program under test, where it is not the build's own.
pub const PROGRAM: &str = "AGENTS_SANDBOX_VM_PROGRAM";
/// The image archive, made by the first process.
pub const IMAGE: &str = "AGENTS_SANDBOX_VM_IMAGE";

pub fn place() -> PathBuf {
    std::env::var_os(PLACE)
        .map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("vm"), PathBuf::from)
}

pub fn program() -> PathBuf {
    std::env::var_os(PROGRAM)
        .map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_agents-sandbox")), PathBuf::from)
}

/// A home of the tests' own: nothing of the person's is read or written.
pub fn layout() -> Result<Layout, String> {
    let environment = Environment { home: Some(place().join("home")), ..Environment::default() };
    Layout::new(&environment).map_err(|error| error.to_string())
}

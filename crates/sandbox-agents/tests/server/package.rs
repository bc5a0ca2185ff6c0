//! The program of opencode's npm package for this machine, fetched once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub fn opencode() -> PathBuf {
    let package =
        if cfg!(target_arch = "x86_64") { "opencode-linux-x64-baseline" } else { "opencode-linux-arm64" };
    let store = Path::new(env!("CARGO_TARGET_TMPDIR")).join(package);
    let binary = store.join("package/bin/opencode");
    if !binary.exists() {
        // Two tests may be here at once: each fetches for itself, and one of the results stays.
        let own = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        run(Command::new("npm").args(["pack", "--silent", package]).current_dir(own.path()));
        let archive = fs::read_dir(own.path()).unwrap().next().unwrap().unwrap().path();
        run(Command::new("tar").arg("-xzf").arg(archive).current_dir(own.path()));
        if let Err(error) = fs::rename(own.path(), &store) {
            assert!(binary.exists(), "{error}");
        }
    }
    binary
}

pub fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

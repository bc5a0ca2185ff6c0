//! The program that runs the contract's cases, and what it prepares on the host.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::steps::{Outcome, run, text};

pub fn build(target: &Path) -> Outcome<PathBuf> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let mut build = Command::new(cargo);
    build
        .args(["build", "--quiet", "--package", "sandbox-runtime-microsandbox", "--example", "contract"])
        .arg("--target-dir")
        .arg(target);
    run("building the cases", &mut build)?;
    Ok(target.join("debug/examples/contract"))
}

/// The pinned runtime, from wherever the program would get it: a folder with `bin` and `lib`.
pub fn install_runtime(program: &Path, lab: &Path) -> Outcome<PathBuf> {
    let place = lab.join("runtime");
    std::fs::create_dir_all(&place).map_err(|error| text(&error))?;
    let said = run("installing microsandbox", Command::new(program).arg("install").arg(&place))?;
    Ok(PathBuf::from(String::from_utf8_lossy(&said).trim()))
}

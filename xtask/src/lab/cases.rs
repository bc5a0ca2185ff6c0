//! The programs that run in the lab, and what they prepare on the host.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::steps::{Outcome, run, text};

/// What is built for the lab.
pub struct Built {
    /// The example that has the contract's cases.
    pub contract: PathBuf,
    /// The real program.
    pub program: PathBuf,
}

pub fn build(target: &Path) -> Outcome<Built> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let mut build = Command::new(cargo);
    build
        .args(["build", "--quiet", "--package", "sandbox-runtime-microsandbox", "--example", "contract"])
        .args(["--package", "agents-sandbox", "--bin", "agents-sandbox"])
        .arg("--target-dir")
        .arg(target);
    run("building the cases and the program", &mut build)?;
    let debug = target.join("debug");
    Ok(Built { contract: debug.join("examples/contract"), program: debug.join("agents-sandbox") })
}

/// The pinned runtime, from wherever the program would get it: a folder with `bin` and `lib`.
pub fn install_runtime(program: &Path, lab: &Path) -> Outcome<PathBuf> {
    let place = lab.join("runtime");
    std::fs::create_dir_all(&place).map_err(|error| text(&error))?;
    let said = run("installing microsandbox", Command::new(program).arg("install").arg(&place))?;
    Ok(PathBuf::from(String::from_utf8_lossy(&said).trim()))
}

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

/// The cases as they are built for development, of which most is there already; the program, where it is timed,
/// as it is released.
pub fn build(target: &Path, released: bool) -> Outcome<Built> {
    // Not these two alone: with the features that the whole workspace agrees on, most of it is there already.
    cargo(target, "building the cases and the program", &["--workspace", "--bins", "--examples"])?;
    let debug = target.join("debug");
    let mut built =
        Built { contract: debug.join("examples/contract"), program: debug.join("agents-sandbox") };
    if released {
        cargo(target, "building the released program", &["--package", "agents-sandbox", "--release"])?;
        built.program = target.join("release/agents-sandbox");
    }
    Ok(built)
}

fn cargo(target: &Path, what: &str, arguments: &[&str]) -> Outcome {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--quiet", "--target-dir"]).arg(target).args(arguments);
    // What cargo told this chore about itself would make crates that ask for it be built anew.
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(is_of_a_running_package) {
            build.env_remove(name);
        }
    }
    run(what, &mut build).map(drop)
}

/// Variables that `cargo run` sets for what it runs.
fn is_of_a_running_package(name: &str) -> bool {
    name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
}

/// The pinned runtime, from wherever the program would get it: a folder with `bin` and `lib`.
pub fn install_runtime(program: &Path, lab: &Path) -> Outcome<PathBuf> {
    let place = lab.join("runtime");
    std::fs::create_dir_all(&place).map_err(|error| text(&error))?;
    let said = run("installing microsandbox", Command::new(program).arg("install").arg(&place))?;
    Ok(PathBuf::from(String::from_utf8_lossy(&said).trim()))
}

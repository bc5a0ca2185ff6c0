use std::path::Path;
use std::process::Command;

use crate::rooms;

/// Compares the table in `ARCHITECTURE.md` with what `cargo metadata` says.
pub fn run() -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let document = root.join("ARCHITECTURE.md");
    let markdown =
        std::fs::read_to_string(&document).map_err(|error| format!("{}: {error}", document.display()))?;
    let allowed = rooms::table(&markdown).map_err(|reason| format!("ARCHITECTURE.md: {reason}"))?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(&root)
        .output()
        .map_err(|error| format!("cargo metadata: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    let metadata =
        serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))?;
    let real = rooms::real(&metadata);
    let lines = rooms::disagreements(&allowed, &real);
    if lines.is_empty() {
        println!("{} rooms use each other as ARCHITECTURE.md says", real.len());
        return Ok(());
    }
    Err(format!("the rooms and ARCHITECTURE.md disagree:\n  {}", lines.join("\n  ")))
}

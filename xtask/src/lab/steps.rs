//! Programs that the lab is built with.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

pub type Outcome<T = ()> = Result<T, String>;

pub fn text(error: &dyn std::fmt::Display) -> String {
    error.to_string()
}

/// Runs one program to its end, in silence unless it fails.
pub fn run(what: &str, command: &mut Command) -> Outcome<Vec<u8>> {
    let began = Instant::now();
    println!("==> {what}");
    let path = std::env::var("PATH").unwrap_or_default();
    let output = command
        .env("PATH", format!("{path}:/usr/local/sbin:/usr/sbin:/sbin"))
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{}: {error}", command.get_program().to_string_lossy()))?;
    if !output.status.success() {
        return Err(format!("{what}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr).trim()));
    }
    println!("    {:.0} s", began.elapsed().as_secs_f64());
    Ok(output.stdout)
}

/// A folder that is made once for everything that `key` says.
pub fn cached(lab: &Path, kind: &str, key: &[&str], make: impl FnOnce(&Path) -> Outcome) -> Outcome<PathBuf> {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    let dir = lab.join(format!("{kind}-{:016x}", hasher.finish()));
    if dir.exists() {
        return Ok(dir);
    }
    // Another content of the same kind is not used again; neither is what a killed run left.
    for entry in std::fs::read_dir(lab).map_err(|error| text(&error))?.flatten() {
        if entry.file_name().to_string_lossy().trim_start_matches('.').starts_with(&format!("{kind}-")) {
            std::fs::remove_dir_all(entry.path()).map_err(|error| text(&error))?;
        }
    }
    let unfinished = lab.join(format!(".{kind}-unfinished"));
    std::fs::create_dir(&unfinished).map_err(|error| text(&error))?;
    make(&unfinished)?;
    std::fs::rename(&unfinished, &dir).map_err(|error| text(&error))?;
    Ok(dir)
}

/// A shell script that sees itself as root, so that files can belong to anyone. `$1` is `dir`.
pub fn as_root(script: &str, dir: &Path) -> Command {
    let root =
        std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    let mut command = if root { Command::new("sh") } else { Command::new("unshare") };
    if !root {
        command.args(["--user", "--map-auto", "--map-root-user", "sh"]);
    }
    command.args(["-euc", script, "sh"]).arg(dir);
    command
}

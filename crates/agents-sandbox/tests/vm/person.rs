//! The ordinary user that root's test run makes, with an own copy of the programs.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sandbox_state::{Lock, LockMode};

use crate::{image, place};

/// Removed again by the test command.
const USER: &str = "agents-sandbox-test";

/// Runs this test program as the ordinary user with `variables` set.
pub fn run_as_ordinary(variables: &[(&str, &str)]) -> Result<(), String> {
    let home = ensure()?;
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let (archive, _) = image::archive()?;
    let copies = home.join("copies");
    let test = copy(&own, &copies, 0o755)?;
    let program = copy(&place::program(), &copies, 0o755)?;
    let archive = copy(&archive, &copies, 0o644)?;
    let output = Command::new("/usr/sbin/runuser")
        .args(["-u", USER, "--"])
        .arg(&test)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", &home)
        .env("RUST_BACKTRACE", "1")
        .env(place::PLACE, home.join("vm"))
        .env(place::PROGRAM, &program)
        .env(place::IMAGE, &archive)
        .envs(variables.iter().copied())
        .current_dir(&home)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("runuser: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!(
        "as {USER}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    ))
}

/// The user's home.
fn ensure() -> Result<PathBuf, String> {
    let place = place::place();
    fs::create_dir_all(&place).map_err(|error| error.to_string())?;
    let _lock = Lock::take(&place.join("person.lock"), LockMode::Exclusive, "useradd", |_| {})
        .map_err(|error| error.to_string())?;
    let home = PathBuf::from("/home").join(USER);
    let known = Command::new("id").arg(USER).output().is_ok_and(|output| output.status.success());
    if !known {
        let made = Command::new("/usr/sbin/useradd")
            .args(["--create-home", "--home-dir"])
            .arg(&home)
            .args(["--shell", "/bin/bash", USER])
            .output()
            .map_err(|error| format!("useradd: {error}"))?;
        if !made.status.success() {
            return Err(format!("useradd: {}", String::from_utf8_lossy(&made.stderr)));
        }
    }
    Ok(home)
}

/// A copy that the user can read; made anew when the original is another.
fn copy(original: &Path, dir: &Path, mode: u32) -> Result<PathBuf, String> {
    let copy = || -> std::io::Result<PathBuf> {
        fs::create_dir_all(dir)?;
        let metadata = fs::metadata(original)?;
        let name = original.file_name().unwrap_or_default().to_string_lossy();
        // One process must not replace a program that another is executing.
        let target = dir.join(format!("{name}-{}-{}", metadata.ino(), metadata.mtime()));
        let _lock = Lock::take(&dir.join("copy.lock"), LockMode::Exclusive, "copy", |_| {})
            .map_err(std::io::Error::other)?;
        if !target.exists() {
            let unfinished = target.with_extension("unfinished");
            fs::copy(original, &unfinished)?;
            fs::set_permissions(&unfinished, fs::Permissions::from_mode(mode))?;
            fs::rename(&unfinished, &target)?;
        }
        Ok(target)
    };
    copy().map_err(|error| format!("cannot copy {}: {error}", original.display()))
}

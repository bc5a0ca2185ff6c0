//! The lab's second disk: what goes in, and what comes out.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::steps::{Outcome, run, text};

const INIT: &str = include_str!("init.sh");
/// Sparse: homes and root disks of all cases, one after the other.
const DISK: &str = "12G";

pub struct Parts {
    pub program: PathBuf,
    /// A folder with `image.tar` and `image-id`.
    pub image: PathBuf,
    /// A folder with `bin` and `lib`.
    pub runtime: PathBuf,
    pub cases: Vec<String>,
}

pub fn make(lab: &Path, parts: &Parts) -> Outcome<PathBuf> {
    let (staging, disk) = (lab.join("inputs"), lab.join("inputs.img"));
    let copy = || -> std::io::Result<()> {
        if staging.exists() {
            fs::remove_dir_all(&staging)?;
        }
        let place = staging.join("place");
        for (dir, file) in [("bin", "msb"), ("lib", "libkrunfw.so.5.6.1")] {
            fs::create_dir_all(place.join("runtime").join(dir))?;
            fs::copy(parts.runtime.join(dir).join(file), place.join("runtime").join(dir).join(file))?;
        }
        for file in ["image.tar", "image-id"] {
            fs::copy(parts.image.join(file), place.join(file))?;
        }
        fs::copy(&parts.program, staging.join("contract"))?;
        fs::write(staging.join("cases"), parts.cases.join(" "))?;
        fs::write(staging.join("init"), INIT)?;
        fs::set_permissions(staging.join("init"), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        match fs::remove_file(&disk) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    };
    copy().map_err(|error| text(&error))?;
    let mut format = Command::new("mke2fs");
    format
        .args(["-q", "-F", "-t", "ext4", "-E", "root_owner=0:0,lazy_itable_init=1,lazy_journal_init=1", "-d"])
        .arg(&staging)
        .arg(&disk)
        .arg(DISK);
    run("making the second disk", &mut format)?;
    fs::remove_dir_all(&staging).map_err(|error| text(&error))?;
    Ok(disk)
}

/// Copies `/logs` of the disk to the lab's folder.
pub fn take_logs(disk: &Path, lab: &Path) -> Outcome {
    let logs = lab.join("logs");
    if logs.exists() {
        fs::remove_dir_all(&logs).map_err(|error| text(&error))?;
    }
    let dump = format!("rdump /logs {}", lab.display());
    run("copying the logs out", Command::new("debugfs").args(["-R", &dump]).arg(disk)).map(drop)
}

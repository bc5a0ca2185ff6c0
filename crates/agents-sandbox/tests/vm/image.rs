//! The image of the contract's cases: Debian's smallest system with a user `dev`, as a docker archive.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sandbox_model::Digest;
use sandbox_state::{Lock, LockMode};
use sha2::{Digest as _, Sha256};

use crate::place;

const CONFIG: &str = r#"{"config":{"Env":["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin","FROM_IMAGE=yes"],"Labels":{"org.agents-sandbox.managed":"true"}}}"#;
const MANIFEST: &str = r#"[{"Config":"config.json","RepoTags":["contract:latest"],"Layers":["layer.tar"]}]"#;
pub const DEV_UID: u32 = 1000;

/// The archive and its image id. Bootstrapped once, which takes about a minute.
pub fn archive() -> Result<(PathBuf, Digest), String> {
    let digest = hex::encode(Sha256::digest(CONFIG)).parse().map_err(|error| format!("{error}"))?;
    if let Some(path) = std::env::var_os(place::IMAGE) {
        return Ok((path.into(), digest));
    }
    let place = place::place();
    fs::create_dir_all(&place).map_err(|error| format!("{}: {error}", place.display()))?;
    let path = place.join("image.tar");
    let _lock = Lock::take(&place.join("image.lock"), LockMode::Exclusive, "bootstrap", |_| {})
        .map_err(|error| error.to_string())?;
    if !path.exists() {
        bootstrap(&place, &path).map_err(|error| format!("the test image cannot be made: {error}"))?;
    }
    Ok((path, digest))
}

fn bootstrap(place: &Path, path: &Path) -> Result<(), String> {
    let layer = place.join("layer.tar");
    let made = Command::new("mmdebstrap")
        .args(["--quiet", "--variant=minbase", "--aptopt=Acquire::Check-Valid-Until \"false\""])
        .arg(format!(
            "--customize-hook=chroot \"$1\" useradd --create-home --uid {DEV_UID} --shell /bin/bash dev"
        ))
        .arg("--customize-hook=mkdir \"$1/workspace\"")
        .arg("trixie")
        .arg(&layer)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("mmdebstrap: {error}"))?;
    if !made.status.success() {
        return Err(format!("mmdebstrap: {}", String::from_utf8_lossy(&made.stderr)));
    }
    let unfinished = path.with_extension("unfinished");
    let write = || -> std::io::Result<()> {
        let mut archive = tar::Builder::new(fs::File::create(&unfinished)?);
        for (name, text) in [("config.json", CONFIG), ("manifest.json", MANIFEST)] {
            let mut header = tar::Header::new_gnu();
            header.set_size(text.len() as u64);
            header.set_mode(0o644);
            archive.append_data(&mut header, name, text.as_bytes())?;
        }
        archive.append_path_with_name(&layer, "layer.tar")?;
        archive.into_inner()?.sync_all()?;
        fs::remove_file(&layer)?;
        fs::rename(&unfinished, path)
    };
    write().map_err(|error| error.to_string())
}

//! A machine's second disk: what goes in, and what comes out.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::steps::{Outcome, run, text};

const INIT: &str = include_str!("init.sh");
const ENGINE: &str = include_str!("engine.sh");
const WORDS: &str = include_str!("words.sh");
const PROGRAM: &str = include_str!("program.sh");
const AGENT: &str = include_str!("agent.sh");
const DOCKER: &str = include_str!("docker.sh");
const REGISTRY: &str = include_str!("registry.py");
const BEYOND: &str = include_str!("beyond.sh");
const BEYOND_SERVER: &str = include_str!("beyond.py");
const COMPANY_PROXY: &str = include_str!("proxy.py");
const NETWORK: &str = include_str!("network.sh");
const SSH_AGENT: &str = include_str!("ssh_agent.py");
const TROUBLE: &str = include_str!("trouble.sh");
const SNAPSHOT: &str = include_str!("snapshot.sh");
const PROVIDER: &str = include_str!("../../../tests/fake-provider/fake_provider.py");
const OVERHEAD: &str = include_str!("overhead.sh");
/// Sparse: homes and root disks of all cases, one after the other.
const DISK: &str = "12G";

pub struct Parts {
    pub contract: PathBuf,
    pub program: PathBuf,
    /// A folder with `image.tar` and `image-id`.
    pub image: PathBuf,
    /// The same of an image with an agent; only where one is run.
    pub agent: Option<PathBuf>,
    /// The same of one with Docker.
    pub docker: Option<PathBuf>,
    /// A folder with `bin` and `lib`.
    pub runtime: PathBuf,
}

/// `steps` is a shell script.
pub fn make(lab: &Path, machine: &str, parts: &Parts, steps: &str) -> Outcome<PathBuf> {
    let (staging, disk) = (lab.join(format!("inputs-{machine}")), lab.join(format!("inputs-{machine}.img")));
    stage(&staging, parts, steps).map_err(|error| text(&error))?;
    match fs::remove_file(&disk) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(text(&error)),
        _ => {}
    }
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

fn stage(staging: &Path, parts: &Parts, steps: &str) -> std::io::Result<()> {
    if staging.exists() {
        fs::remove_dir_all(staging)?;
    }
    let place = staging.join("place");
    for (dir, file) in [("bin", "msb"), ("lib", "libkrunfw.so.5.6.1")] {
        fs::create_dir_all(place.join("runtime").join(dir))?;
        fs::copy(parts.runtime.join(dir).join(file), place.join("runtime").join(dir).join(file))?;
    }
    let images =
        [(Some(&parts.image), "image"), (parts.agent.as_ref(), "agent"), (parts.docker.as_ref(), "docker")];
    for (image, name) in images {
        let Some(image) = image else { continue };
        fs::copy(image.join("image.tar"), place.join(format!("{name}.tar")))?;
        fs::copy(image.join("image-id"), place.join(format!("{name}-id")))?;
    }
    fs::create_dir(staging.join("bin"))?;
    fs::copy(&parts.contract, staging.join("bin/contract"))?;
    fs::copy(&parts.program, staging.join("bin/agents-sandbox"))?;
    for (path, script) in [
        ("init", INIT),
        ("bin/docker", ENGINE),
        ("bin/words", WORDS),
        ("bin/program-cases", PROGRAM),
        ("bin/agent-cases", AGENT),
        ("bin/docker-cases", DOCKER),
        ("bin/registry", REGISTRY),
        ("bin/beyond", BEYOND),
        ("bin/beyond-server", BEYOND_SERVER),
        ("bin/company-proxy", COMPANY_PROXY),
        ("bin/network-cases", NETWORK),
        ("bin/ssh-agent-stand-in", SSH_AGENT),
        ("bin/snapshot-cases", SNAPSHOT),
        ("bin/trouble-cases", TROUBLE),
        ("bin/fake-provider", PROVIDER),
        ("bin/bench-overhead", OVERHEAD),
    ] {
        fs::write(staging.join(path), script)?;
        fs::set_permissions(staging.join(path), fs::Permissions::from_mode(0o755))?;
    }
    fs::write(staging.join("steps"), steps)
}

/// Copies `/logs` of the disk to the lab's folder.
pub fn take_logs(disk: &Path, logs: &Path) -> Outcome {
    if logs.exists() {
        fs::remove_dir_all(logs).map_err(|error| text(&error))?;
    }
    fs::create_dir_all(logs).map_err(|error| text(&error))?;
    let dump = format!("rdump /logs {}", logs.display());
    run("copying the logs out", Command::new("debugfs").args(["-R", &dump]).arg(disk)).map(drop)
}

use sandbox_config::Settings;
use sandbox_image::{ClientSettings, EngineName, EngineSettings};

use super::Finding;

const CHECK: &str = "image engine";

pub struct Found {
    pub finding: Finding,
    /// It works with the rights of the caller alone.
    pub rootless: bool,
}

/// Asks the engines, over a storage that is gone afterwards: the first look makes one.
pub fn check(settings: &Settings) -> Found {
    let storage = match tempfile::tempdir() {
        Ok(storage) => storage,
        Err(error) => {
            let hint = "make room, or set TMPDIR to a folder that may be written";
            return Found { finding: Finding::missing(CHECK, error.to_string(), hint), rootless: false };
        }
    };
    // Its short-lived files are in a folder that is named after the storage: each look would leave another one behind.
    // Not wherever TMPDIR is, for the name of that one must be short.
    let short = tempfile::Builder::new().prefix("asb-").tempdir_in("/tmp").ok();
    let runtime_dir = short.as_ref().map(|dir| dir.path().into());
    let engines = EngineSettings {
        dir: storage.path().into(),
        runtime_dir: runtime_dir.or_else(|| ClientSettings::from_process().runtime_dir),
        ..EngineSettings::default()
    };
    let wanted = settings.image_engine.value.to_string().parse().unwrap_or_default();
    match sandbox_image::find(wanted, &engines) {
        Ok(engine) => {
            let rootless = engine.name() != EngineName::Docker && !rustix::process::geteuid().is_root();
            Found { finding: Finding::good(CHECK, engine.name().to_string()), rootless }
        }
        Err(error) => {
            let hint =
                "install one: `apt-get install buildah uidmap` is the smallest and needs no root to run";
            Found { finding: Finding::missing(CHECK, error.to_string(), hint), rootless: false }
        }
    }
}

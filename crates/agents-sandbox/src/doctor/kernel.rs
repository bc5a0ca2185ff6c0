use sandbox_config::Settings;
use sandbox_runtime_qemu::check_kernel;
use sandbox_state::{Layout, find_system_tool};

use super::Finding;
use crate::wiring::drivers::{filled_in, source};

const CHECK: &str = "guest kernel";

pub fn check(layout: &Layout, settings: &Settings) -> Finding {
    if let Some(path) = &settings.qemu_kernel.value {
        return match check_kernel(path) {
            Ok(()) => Finding::good(CHECK, path.display().to_string()),
            Err(error) => {
                Finding::missing(CHECK, error.to_string(), "correct `qemu.kernel`, or leave it out")
            }
        };
    }
    let installed = layout.msb_files().installed();
    if installed.is_file() {
        return Finding::good(CHECK, format!("installed in {}", layout.msb().display()));
    }
    if let Some(archive) = &settings.msb_archive.value {
        return if archive.exists() {
            Finding::good(CHECK, format!("the first run installs it from {}", archive.display()))
        } else {
            let detail = format!("{} is not there", archive.display());
            Finding::missing(CHECK, detail, "correct `msb.archive`, or leave it out")
        };
    }
    let source = source(settings);
    if let Some(archive) = &source.path {
        return Finding::good(CHECK, format!("the first run installs it from {}", archive.display()));
    }
    if let Some(address) = &source.url {
        return Finding::good(CHECK, format!("the first run asks {}", filled_in(address)));
    }
    if ["pip3", "pip", "python3"].into_iter().any(|program| find_system_tool(program).is_ok()) {
        return Finding::good(CHECK, "the first run fetches it with pip");
    }
    Finding::missing(
        CHECK,
        "not installed, and there is no pip to fetch it",
        "`apt-get install python3-pip`, or set `msb.archive` to a folder or an archive that has it",
    )
}

//! The image of the lab's sandboxes: Debian's smallest system with a user `dev`.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::steps::{Outcome, cached, run};

const SUITE: &str = "trixie";
const HOOKS: [&str; 2] = [
    "--customize-hook=chroot \"$1\" useradd --create-home --uid 1000 --shell /bin/bash dev",
    "--customize-hook=mkdir \"$1/workspace\"",
];

/// A folder with `image.tar`, a docker archive, and `image-id`.
pub fn ensure(lab: &Path, program: &Path) -> Outcome<PathBuf> {
    cached(lab, "image", &[SUITE, HOOKS[0], HOOKS[1]], |dir| {
        let layer = dir.join("layer.tar");
        let mut bootstrap = Command::new("mmdebstrap");
        bootstrap
            .args(["--quiet", "--variant=minbase", "--aptopt=Acquire::Check-Valid-Until \"false\""])
            .args(HOOKS)
            .arg(SUITE)
            .arg(&layer);
        run("bootstrapping the sandboxes' image", &mut bootstrap)?;
        run("packing it", Command::new(program).arg("pack").arg(&layer).arg(dir))?;
        std::fs::remove_file(&layer).map_err(|error| error.to_string())
    })
}

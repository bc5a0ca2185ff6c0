//! The images of the lab's sandboxes: Debian's smallest system with a user `dev` and what signs commits, and the same
//! with opencode.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::steps::{Outcome, cached, run};

const SUITE: &str = "trixie";
const PACKAGES: &str = "openssh-client";
const HOOKS: [&str; 3] = [
    "--customize-hook=chroot \"$1\" useradd --create-home --uid 1000 --shell /bin/bash dev",
    "--customize-hook=mkdir \"$1/workspace\"",
    // git's program alone: the package would bring all of Perl, and every machine loads this image.
    "--customize-hook=cd \"$1/tmp\" && APT_CONFIG=\"$MMDEBSTRAP_APT_CONFIG\" apt-get --quiet download git && \
     dpkg-deb --fsys-tarfile git_*.deb | tar --extract --directory \"$1\" ./usr/bin/git && rm git_*.deb && \
     chroot \"$1\" git --version",
];

/// The archive's lowest layer, which the image with the agent takes from it.
const LOWEST: &str = "layer-0.tar";

/// What the agent's recipe installs on this processor, as a layer.
const ADD_AGENT: &str = "\
cd \"$1\"
tar --extract --file \"$2\" \"$3\"
npm pack --silent opencode-linux-x64-baseline
tar --extract --gzip --file opencode-*.tgz package/bin/opencode
mkdir --parents root/usr/local/bin
mv package/bin/opencode root/usr/local/bin/
chmod 755 root/usr/local/bin/opencode
tar --create --file layer-1.tar --owner 0 --group 0 --numeric-owner --directory root usr
rm -rf package root opencode-*.tgz
";

/// A folder with `image.tar`, a docker archive, and `image-id`.
pub fn ensure(lab: &Path, program: &Path) -> Outcome<PathBuf> {
    cached(lab, "image", &[SUITE, PACKAGES, HOOKS[0], HOOKS[1], HOOKS[2], LOWEST], |dir| {
        let layer = dir.join("layer.tar");
        let mut bootstrap = Command::new("mmdebstrap");
        bootstrap
            .args(["--quiet", "--variant=minbase", "--aptopt=Acquire::Check-Valid-Until \"false\""])
            .arg(format!("--include={PACKAGES}"))
            .args(HOOKS)
            .arg(SUITE)
            .arg(&layer);
        run("bootstrapping the sandboxes' image", &mut bootstrap)?;
        run("packing it", Command::new(program).arg("pack").arg(dir).arg(&layer))?;
        std::fs::remove_file(&layer).map_err(|error| error.to_string())
    })
}

/// The same image with the real opencode in it, as today's registry has it.
pub fn ensure_agent(lab: &Path, program: &Path, image: &Path) -> Outcome<PathBuf> {
    let key = image.display().to_string();
    cached(lab, "agent", &[&key, ADD_AGENT], |dir| {
        let mut add = Command::new("sh");
        add.args(["-euc", ADD_AGENT, "sh"]).arg(dir).arg(image.join("image.tar")).arg(LOWEST);
        run("fetching opencode", &mut add)?;
        let layers = [LOWEST, "layer-1.tar"].map(|layer| dir.join(layer));
        run("packing the image with it", Command::new(program).arg("pack").arg(dir).args(&layers))?;
        layers.iter().try_for_each(|layer| std::fs::remove_file(layer).map_err(|error| error.to_string()))
    })
}

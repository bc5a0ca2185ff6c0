//! The images of the lab's sandboxes: Debian's smallest system with a user `dev` and what signs commits, the same with
//! opencode, and the same with Docker.

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

/// What of Docker the images of real sandboxes have from Debian, but for compose.
const DOCKER_PACKAGES: &str = "docker.io,docker-cli,docker-buildx,iptables,curl,procps";
/// A registry without TLS is one that the engine must be told about: the host, as guests of either runtime see it.
const DOCKER_HOOKS: [&str; 2] = [
    "--customize-hook=chroot \"$1\" sh -c 'getent group docker > /dev/null || groupadd docker; usermod -a -G docker dev'",
    "--customize-hook=mkdir -p \"$1/etc/docker\" \"$1/var/lib/docker\" && \
     echo '{\"insecure-registries\": [\"172.16.0.0/12\", \"198.18.0.0/15\"]}' > \"$1/etc/docker/daemon.json\"",
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
    bootstrapped(lab, program, "image", PACKAGES, &[])
}

/// The same with Docker.
pub fn ensure_docker(lab: &Path, program: &Path) -> Outcome<PathBuf> {
    bootstrapped(lab, program, "docker", &format!("{PACKAGES},{DOCKER_PACKAGES}"), &DOCKER_HOOKS)
}

fn bootstrapped(lab: &Path, program: &Path, kind: &str, packages: &str, hooks: &[&str]) -> Outcome<PathBuf> {
    let hooks = [&HOOKS[..], hooks].concat();
    let key = [&[SUITE, packages, LOWEST][..], &hooks[..]].concat();
    cached(lab, kind, &key, |dir| {
        let layer = dir.join("layer.tar");
        let mut bootstrap = Command::new("mmdebstrap");
        bootstrap
            .args(["--quiet", "--variant=minbase", "--aptopt=Acquire::Check-Valid-Until \"false\""])
            .arg(format!("--include={packages}"))
            .args(&hooks)
            .arg(SUITE)
            .arg(&layer);
        run(&format!("bootstrapping the sandboxes' image ({kind})"), &mut bootstrap)?;
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

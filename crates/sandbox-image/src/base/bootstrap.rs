use std::path::{Path, PathBuf};
use std::process::Command;

use fs_err as fs;
use sandbox_model::labels;
use sandbox_state::{Layout, make_private_dir};

use super::apt::{Sources, known, options, sources, targets};
use super::setting::bootstrapped;
use crate::engine::run;
use crate::{BuildRequest, Engine, Events, ImageError, Result};

/// As Debian's slim images leave them out.
const LEFT_OUT: [&str; 4] = [
    "path-exclude=/usr/share/man/*",
    "path-exclude=/usr/share/locale/*",
    "path-exclude=/usr/share/doc/*",
    "path-include=/usr/share/doc/*/copyright",
];
/// How the machine reaches its mirror is not the image's business, and a proxy may carry a password.
const FORGET_PROXIES: &str =
    r#"sed -i -E '/^Acquire::https?::(Proxy|CAInfo)/Id' "$1/etc/apt/apt.conf.d/99mmdebstrap""#;
const ROOTFS: &str = "rootfs.tar";
const UNFINISHED: &str = ".new-";

/// Where the root file system of a bootstrapped release is kept. The folder is a build context: nothing
/// else may be in it for long.
pub(super) fn rootfs(layout: &Layout, suite: &str) -> PathBuf {
    layout.engine().join("bases").join(suite).join(ROOTFS)
}

/// Makes the root file system of `suite`. The caller holds the base lock.
pub(super) fn bootstrap(layout: &Layout, suite: &str, events: &mut dyn Events) -> Result<PathBuf> {
    let path = rootfs(layout, suite);
    let dir = path.parent().unwrap_or(Path::new("/"));
    make_private_dir(dir)?;
    remove_unfinished(dir)?;
    let program =
        which::which("mmdebstrap").map_err(|_| ImageError::NoBootstrap { reference: bootstrapped(suite) })?;
    let targets = targets()?;
    let sources = sources(&targets, suite)
        .ok_or_else(|| ImageError::NoMirror { suite: suite.into(), known: known(&targets) })?;
    events.stage(&format!("bootstrapping a base image of {suite} from this machine's package mirror"));
    let new = dir.join(format!("{UNFINISHED}{}.tar", std::process::id()));
    let command = mmdebstrap(&program, suite, &new, &sources, &options()?);
    let result = run(command, "mmdebstrap", None, events);
    if let Err(error) = result {
        let _ = fs::remove_file(&new);
        return Err(error);
    }
    fs::File::open(&new)?.sync_all()?;
    fs::rename(&new, &path)?;
    Ok(path)
}

fn remove_unfinished(dir: &Path) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn mmdebstrap(program: &Path, suite: &str, to: &Path, sources: &Sources, options: &[String]) -> Command {
    let mut command = Command::new(program);
    command.args(["--variant=minbase", "--format=tar", "--include=ca-certificates"]);
    if let Some(keyring) = &sources.keyring {
        command.arg(format!("--keyring={}", keyring.display()));
    }
    command.args(LEFT_OUT.map(|rule| format!("--dpkgopt={rule}")));
    command.args(options.iter().map(|option| format!("--aptopt={option}")));
    if !options.is_empty() {
        command.arg(format!("--customize-hook={FORGET_PROXIES}"));
    }
    command.arg(suite).arg(to).args(&sources.lines);
    // Inside its namespace an ordinary user's folders may be out of reach; `/` never is.
    command.current_dir("/").env("LC_ALL", "C");
    command
}

/// Gives the engine the root file system at `path` as [`bootstrapped`].
pub(super) fn import(engine: &dyn Engine, suite: &str, path: &Path, events: &mut dyn Events) -> Result<()> {
    events.stage(&format!("importing the base image of {suite}"));
    let dir = tempfile::Builder::new().prefix("agents-sandbox-base-").tempdir()?;
    let dockerfile = dir.path().join("Dockerfile");
    let path_variable = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    fs::write(
        &dockerfile,
        format!(
            "FROM scratch\nADD {ROOTFS} /\nENV PATH={path_variable}\nCMD [\"/bin/bash\"]\nLABEL {}=true\n",
            labels::MANAGED
        ),
    )?;
    let context = path.parent().unwrap_or(Path::new("/"));
    let tag = bootstrapped(suite);
    let request = BuildRequest { context, dockerfile: &dockerfile, args: &[], tag: &tag, no_cache: true };
    engine.build(&request, events)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line() {
        let sources = Sources {
            lines: vec!["deb http://mirror.example/debian trixie main".into()],
            keyring: Some("/usr/share/keyrings/k.gpg".into()),
        };
        let options = ["Acquire::http::Proxy \"http://proxy:3142\"".to_string()];
        let command =
            mmdebstrap(Path::new("mmdebstrap"), "trixie", Path::new("/d/.new-1.tar"), &sources, &options);
        let words: Vec<String> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
        insta::assert_snapshot!(words.join("\n"), @r##"
        --variant=minbase
        --format=tar
        --include=ca-certificates
        --keyring=/usr/share/keyrings/k.gpg
        --dpkgopt=path-exclude=/usr/share/man/*
        --dpkgopt=path-exclude=/usr/share/locale/*
        --dpkgopt=path-exclude=/usr/share/doc/*
        --dpkgopt=path-include=/usr/share/doc/*/copyright
        --aptopt=Acquire::http::Proxy "http://proxy:3142"
        --customize-hook=sed -i -E '/^Acquire::https?::(Proxy|CAInfo)/Id' "$1/etc/apt/apt.conf.d/99mmdebstrap"
        trixie
        /d/.new-1.tar
        deb http://mirror.example/debian trixie main
        "##);
    }

    #[test]
    fn what_a_killed_bootstrap_left_is_swept_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        for name in [".new-1.tar", ROOTFS] {
            fs::write(dir.path().join(name), "x").unwrap();
        }
        remove_unfinished(dir.path()).unwrap();
        assert!(!dir.path().join(".new-1.tar").exists() && dir.path().join(ROOTFS).exists());
    }
}

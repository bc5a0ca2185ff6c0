use std::path::{Path, PathBuf};
use std::process::Command;

use fs_err as fs;
use sandbox_model::labels;
use sandbox_state::{Layout, make_private_dir};

use super::apt::{Sources, known, options, sources, targets};
use super::setting::bootstrapped;
use crate::engine::run;
use crate::{BuildRequest, Engine, Events, ImageError, Result, files};

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
const WORK: &str = "bootstrap-";

/// Where the root file system of a bootstrapped release is kept. The folder is a build context: nothing
/// else may be in it for long.
pub(super) fn rootfs(layout: &Layout, suite: &str) -> PathBuf {
    files::base(&layout.engine(), suite).join(ROOTFS)
}

/// Makes the root file system of `suite`. The caller holds the base lock.
pub(super) fn bootstrap(layout: &Layout, suite: &str, events: &mut dyn Events) -> Result<PathBuf> {
    let path = rootfs(layout, suite);
    let dir = path.parent().unwrap_or(Path::new("/"));
    make_private_dir(dir)?;
    remove_unfinished(dir, UNFINISHED)?;
    remove_unfinished(&layout.engine(), WORK)?;
    let program =
        which::which("mmdebstrap").map_err(|_| ImageError::NoBootstrap { reference: bootstrapped(suite) })?;
    let targets = targets()?;
    let sources = sources(&targets, suite)
        .ok_or_else(|| ImageError::NoMirror { suite: suite.into(), known: known(&targets) })?;
    events.stage(&format!("bootstrapping a base image of {suite} from this machine's package mirror"));
    let new = dir.join(format!("{UNFINISHED}{}.tar", std::process::id()));
    let mut command = mmdebstrap(&program, suite, &new, &sources, &options()?);
    let work = if rustix::process::geteuid().is_root() {
        let work = tempfile::Builder::new().prefix(WORK).tempdir_in(layout.engine())?;
        command = alone(&command);
        command.env("TMPDIR", work.path());
        Some(work)
    } else {
        None
    };
    let result = run(command, "mmdebstrap", None, events);
    drop(work);
    if let Err(error) = result {
        let _ = fs::remove_file(&new);
        return Err(error);
    }
    fs::File::open(&new)?.sync_all()?;
    fs::rename(&new, &path)?;
    Ok(path)
}

/// Removes what a bootstrap that was killed left; the base lock says that none is under way.
fn remove_unfinished(dir: &Path, prefix: &str) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(prefix) {
            if entry.file_type()?.is_dir() {
                fs::remove_dir_all(entry.path())?;
            } else {
                fs::remove_file(entry.path())?;
            }
        }
    }
    Ok(())
}

/// The same command with mounts of its own. Run by root, mmdebstrap mounts `/proc` and `/sys` below its
/// folder; were it killed, they would stay for good, and removing that folder would reach into them.
fn alone(command: &Command) -> Command {
    let mut outer = Command::new("unshare");
    outer.args(["--mount", "--propagation", "private", "--"]).arg(command.get_program());
    outer.args(command.get_args()).current_dir("/");
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
    outer
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
        fs::create_dir_all(dir.path().join("bootstrap-x/proc")).unwrap();
        remove_unfinished(dir.path(), UNFINISHED).unwrap();
        remove_unfinished(dir.path(), WORK).unwrap();
        let left: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, [ROOTFS]);
    }
}

//! The table: each kind of error, and what to do about it. Hints name commands; nothing below the program
//! may.

#![allow(clippy::match_same_arms, reason = "a table has one row for each kind of error")]

use std::io::ErrorKind;
use std::path::Path;

use sandbox_checkout::CheckoutError;
use sandbox_config::ConfigError;
use sandbox_image::ImageError;
use sandbox_lifecycle::volumes::VolumeError;
use sandbox_lifecycle::{Held, LifecycleError, PortHolder, UnknownAgent};
use sandbox_model::Status;
use sandbox_runtime::RuntimeError;
use sandbox_state::StateError;

use super::CommandError;
use crate::agents_with::agents_with;
use crate::exit::Exit;

const DOCTOR: &str = "`agents-sandbox doctor` finds out what is missing on this computer";
const LIST: &str = "`agents-sandbox list` shows the sandboxes there are";
/// Of every command but `kill` itself.
pub const POWER_OFF: &str = "`agents-sandbox kill` powers a sandbox off also where microsandbox does not answer, if its machine can be seen";
const NEWER: &str =
    "a newer version of this program wrote it: `agents-sandbox upgrade` fetches the newest one";

fn own(path: &Path) -> String {
    let path = path.display();
    format!("give it to yourself and keep others out: `chown \"$USER\" {path}`, `chmod u+rw,go-w {path}`")
}

/// The usual number above a port for which one needs rights: 8080 for 80. Where one needs rights for more than
/// the first 1024, nobody can tell.
fn higher(port: u16) -> String {
    if port < 1_024 { (8_000 + port).to_string() } else { "HOST".into() }
}

impl From<LifecycleError> for CommandError {
    fn from(error: LifecycleError) -> Self {
        let new = Self::from_chain(&error);
        match error {
            LifecycleError::Runtime(inner) => inner.into(),
            LifecycleError::State(inner) => inner.into(),
            LifecycleError::Io(inner) => inner.into(),
            LifecycleError::Image(inner) => inner.into(),
            LifecycleError::UnknownAgent(_) => new.hint(
                "a newer version of this program may have made it; `agents-sandbox upgrade` gets the newest",
            ),
            LifecycleError::CheckoutGone(_) => new
                .hint("`agents-sandbox sandbox remove NAME` removes the sandbox of a checkout that is gone"),
            LifecycleError::NotUsable { status, .. } => match status {
                Status::Paused => new.hint("`agents-sandbox stop` ends it; the next run starts it again"),
                _ => new
                    .hint("another version of this program may have made it; `agents-sandbox kill` ends it"),
            },
            LifecycleError::Running(name) => {
                new.hint(format!("`agents-sandbox sandbox remove --force {name}` stops it first"))
            }
            LifecycleError::EndedMeanwhile(_) => new.hint("`agents-sandbox run` starts it again"),
            LifecycleError::NoSuchSandbox(_) => new.hint(LIST),
            LifecycleError::NoSuchImage(_) => {
                new.hint("`agents-sandbox image list` shows the images there are")
            }
            LifecycleError::ImageInUse { .. } => {
                new.hint("`agents-sandbox sandbox remove NAME` removes a sandbox; its home volume stays")
            }
            LifecycleError::Port { .. } => {
                new.hint("take another: `agents-sandbox run -p [BIND:]HOST:GUEST`, or the setting `ports`")
            }
            LifecycleError::PortTaken { holder, .. } => taken(new, *holder),
            LifecycleError::PrivilegedPort { address, .. } => new.hint(format!(
                "take a higher one: `agents-sandbox run -p {}:GUEST`, or let everybody have it: `sysctl net.ipv4.ip_unprivileged_port_start={}`",
                higher(address.port()),
                address.port()
            )),
            LifecycleError::MountSource { target, .. } => new.hint(format!(
                "a mount is a folder or a file that exists; `agents-sandbox config show` says which file asks for the one at {target}"
            )),
            LifecycleError::HomeVolume { .. } => new.hint(DOCTOR),
            LifecycleError::Keeper { .. } => new.hint("`agents-sandbox logs keeper` shows what it wrote"),
            LifecycleError::Daemon { log, .. } => new
                .excerpt(&log)
                .hint("`agents-sandbox shell` opens a shell in the sandbox to look around")
                .hint("`agents-sandbox stop` and another run start it afresh"),
            LifecycleError::Docker { log, .. } => new
                .excerpt(&log)
                .hint("`agents-sandbox shell --root` opens a shell in the sandbox to look around")
                .hint("without `docker` in the settings it starts without one"),
            LifecycleError::SecretWithdrawn(_) => {
                new.hint("`agents-sandbox stop --cold` ends what sleeps in it, and its next start has today's secrets")
            }
            LifecycleError::Provision { .. } => {
                new.hint("`agents-sandbox shell --root` opens a shell in the sandbox")
            }
            LifecycleError::NoSshAgent { .. } => new
                .hint("start it without `ssh.agent` and `git.signing`, or with the runtime qemu: `runtime: qemu`"),
            LifecycleError::Snippet { .. } => new,
            LifecycleError::Worktree { .. } | LifecycleError::NoSuchWorktree(_) => {
                new.hint("`agents-sandbox worktree list` shows those there are")
            }
            LifecycleError::WorktreeHolds { name, held } => {
                let new = if held.commits > 0 { new.hint(keeps(&held)) } else { new };
                new.hint(format!("`agents-sandbox worktree remove --force {name}` removes it with all that"))
            }
            LifecycleError::WorktreeUnknown { name, .. } => new.hint(format!(
                "`agents-sandbox worktree remove --force {name}` removes it, whatever is in it"
            )),
            LifecycleError::Server { .. } => {
                new.hint("`agents-sandbox stop` and another run start it afresh")
            }
            LifecycleError::NoServer { .. } => {
                new.hint(format!("`agents-sandbox run` with {} has one", agents_with(|_| true)))
            }
        }
    }
}

/// Whoever has a port is named; this is how to get it, or another one.
fn taken(new: CommandError, holder: PortHolder) -> CommandError {
    let another = |end: &str| {
        format!(
            "{end}take another: `agents-sandbox ports add HOST:GUEST`, `agents-sandbox run -p HOST:GUEST`, or the setting `ports`"
        )
    };
    match holder {
        PortHolder::Sandbox { name, port, agent, checkout } => {
            let agent = agent.map(|agent| format!(" --agent {agent}")).unwrap_or_default();
            new.hint(format!(
                "`agents-sandbox ports remove {port}{agent}` in {} closes that one; `agents-sandbox stop {name}` ends the sandbox",
                checkout.display()
            ))
            .hint(another("or "))
        }
        PortHolder::Asked(_) => new.hint("leave one of them out"),
        PortHolder::Program { pid, .. } => new.hint(another(&format!("end it (`kill {pid}`), or "))),
        PortHolder::Unknown => new.hint(another("end what listens there, or ")),
    }
}

/// How commits outlive their worktree. A sandbox names its branches: one that a shell would read otherwise is in no
/// command.
fn keeps(held: &Held) -> String {
    let plain = |branch: &&String| {
        !branch.starts_with('-') && branch.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c))
    };
    match held.branch.as_ref().filter(plain) {
        Some(branch) => format!(
            "`git merge {branch}` takes the commits over into what is checked out here; `git push REMOTE {branch}` keeps them as well"
        ),
        None => format!("`git branch NAME {}` gives the commits a branch that stays", held.head),
    }
}

impl From<UnknownAgent> for CommandError {
    fn from(error: UnknownAgent) -> Self {
        LifecycleError::from(error).into()
    }
}

impl From<VolumeError> for CommandError {
    fn from(error: VolumeError) -> Self {
        let new = Self::from_chain(&error);
        match error {
            VolumeError::Lifecycle(inner) => inner.into(),
            VolumeError::NoSuchVolume(_) => {
                new.hint("`agents-sandbox volume list` shows the home volumes there are")
            }
            VolumeError::InUse { sandbox, .. } => new.hint(format!(
                "`agents-sandbox sandbox remove {sandbox}` removes the sandbox first, with its disk"
            )),
            VolumeError::Current { .. } => {
                new.hint("`agents-sandbox volume reset` makes another one current first")
            }
            VolumeError::Unknown { .. } => new.hint("look at that record, and mend or delete it"),
            VolumeError::NoHome(_) => new.hint("`agents-sandbox run` makes one"),
            VolumeError::Running(_) => new.hint("quit all sessions, or `agents-sandbox stop` ends it"),
            VolumeError::Foreign(_) => {
                new.hint("`agents-sandbox volume inspect NAME` says whose it is; --agent names another agent")
            }
        }
    }
}

impl From<ConfigError> for CommandError {
    fn from(error: ConfigError) -> Self {
        let new = Self::from_chain(&error);
        let help = error.help().map(ToString::to_string);
        let new = match &error {
            ConfigError::File(file) => new.excerpt(&file.text),
            ConfigError::Flag { .. } => Self { exit: Exit::USAGE, ..new },
            ConfigError::Variable { .. } | ConfigError::Unreadable { .. } | ConfigError::Escape { .. } => new,
        };
        match help {
            Some(help) => new.hint(help),
            None => new,
        }
    }
}

impl From<CheckoutError> for CommandError {
    fn from(error: CheckoutError) -> Self {
        let new = Self::from_chain(&error);
        match error {
            CheckoutError::Folder { .. } | CheckoutError::NotAFolder { .. } => {
                new.hint("change to the folder of your project")
            }
            CheckoutError::PointsNowhere { .. } | CheckoutError::MalformedPointer { .. } => {
                new.hint("`git worktree repair` mends a worktree that was moved")
            }
            CheckoutError::Unreadable { .. } | CheckoutError::MalformedConfig { .. } => new,
        }
    }
}

impl From<ImageError> for CommandError {
    fn from(error: ImageError) -> Self {
        let lines = error.last_lines().join("\n");
        let new = Self::from_chain(&error).excerpt(&lines);
        match error {
            ImageError::Compose(_) | ImageError::Context(_) => {
                new.hint("mend .agents-sandbox/Dockerfile; `FROM agents-sandbox/runner-base` builds on our own image")
            }
            ImageError::NoEngine(_) => new
                .hint("install one of docker, podman and buildah; `apt-get install buildah uidmap` is the smallest")
                .hint(DOCTOR),
            ImageError::State(inner) => inner.into(),
            ImageError::Io(inner) => inner.into(),
            ImageError::Failed(_) => new
                .hint("`agents-sandbox build --log-level verbose` shows the whole log")
                .hint("`agents-sandbox build dockerfile` shows what was built"),
            ImageError::Deadline { .. } => new.hint("try again; what was built is kept"),
            ImageError::Cancelled => new,
            ImageError::Start { .. } | ImageError::Answer { .. } => new.hint(DOCTOR),
            ImageError::NoImage(_) => new.hint("`agents-sandbox build` makes it"),
            ImageError::NoBootstrap { .. } => new.hint("`apt-get install mmdebstrap` lets it be made here"),
            ImageError::NoMirror { .. } => new.hint("set `image.base` to `bootstrap:SUITE` with a suite it knows"),
            ImageError::HostCa { .. } => new.hint("`image.host-ca: off` builds without them"),
        }
    }
}

impl From<RuntimeError> for CommandError {
    fn from(error: RuntimeError) -> Self {
        let new = Self::from_chain(&error);
        match error {
            RuntimeError::NoSuchSandbox(_) => new.hint(LIST),
            RuntimeError::NoSuchSession { .. } => {
                new.hint("`agents-sandbox session list` shows which there are")
            }
            RuntimeError::Exists(name) => {
                new.hint(format!("`agents-sandbox sandbox remove {name}` removes it; its home volume stays"))
            }
            RuntimeError::WrongStatus { .. } => new.hint(LIST),
            RuntimeError::NoSuchImage(_) | RuntimeError::NoSuchContent(_) | RuntimeError::BadArchive(_) => {
                new.hint("`agents-sandbox build` makes the image")
            }
            RuntimeError::BootFailed { name, log, .. } => new
                .excerpt(&log)
                .hint("`agents-sandbox logs` shows the whole console")
                .hint(DOCTOR)
                .hint(format!(
                    "`agents-sandbox sandbox remove {name}` and another run make it anew, with the same home"
                )),
            // As a shell reports it: 126 cannot be run, 127 is not there.
            RuntimeError::ExecFailed { code, .. } => Self { exit: Exit::from_shell_code(code.max(1)), ..new },
            RuntimeError::Unsupported(_) => new,
            RuntimeError::TooMuchOutput { .. } | RuntimeError::NotInTime { .. } => new
                // A plain stop would save the guest as it is.
                .hint("`agents-sandbox stop --cold`, and the next run boots it anew")
                .hint("where a program in the image was replaced, `agents-sandbox sandbox remove` makes it anew, with the same home"),
            RuntimeError::Lost(_) => new.hint("`agents-sandbox logs` shows how it ended"),
            RuntimeError::OtherVersion { .. } => {
                new.hint("`agents-sandbox stop` ends it; the next run starts it under this version")
            }
            RuntimeError::NewerRecords { .. } => new
                .hint("use the newer version of this program again")
                .hint("`agents-sandbox runtime remove --force` starts over without those sandboxes; home volumes stay"),
            RuntimeError::MissingProgram { .. } => new.hint(DOCTOR),
            RuntimeError::NoAnswer { .. } => new
                .hint("try again; on a computer with much to do it may take too long")
                .hint(POWER_OFF),
            RuntimeError::BadRecord { path, .. } => {
                new.hint(format!("the file is broken; look at it, or delete {}", path.display()))
            }
            RuntimeError::NewerRecord { .. } => new.hint(NEWER),
            RuntimeError::Unsafe { path, .. } => new.hint(own(&path)),
            RuntimeError::BadPart { name, .. } => new.hint(format!(
                "put it back as it was; or `agents-sandbox sandbox remove {name}`, and the next run makes the sandbox anew"
            )),
            RuntimeError::NoSecretValue { .. } => {
                new.hint("start it from its project: `agents-sandbox shell`, where the secret is defined")
            }
            RuntimeError::Io(inner) => inner.into(),
            RuntimeError::Other { .. } => new,
        }
    }
}

impl From<StateError> for CommandError {
    fn from(error: StateError) -> Self {
        let new = Self::from_chain(&error);
        match error {
            StateError::Io(inner) => inner.into(),
            StateError::Malformed { path, .. } => {
                new.hint(format!("the file is broken; look at it, or delete {}", path.display()))
            }
            StateError::Newer { .. } => new.hint(NEWER),
            StateError::Unsafe { path, .. } => new.hint(own(&path)),
            StateError::NoHome { .. } => new.hint("set HOME to your home folder"),
            StateError::Held { .. } => new.hint("wait for the other process, or end it"),
        }
    }
}

impl From<std::io::Error> for CommandError {
    fn from(error: std::io::Error) -> Self {
        let new = Self::from_chain(&error);
        match error.kind() {
            // As a program ends whose reader went away: SIGPIPE is 13.
            ErrorKind::BrokenPipe => Self { silent: true, exit: Exit::from_signal(13), ..new },
            ErrorKind::StorageFull => new.hint("free some space on that disk"),
            ErrorKind::PermissionDenied => new.hint(DOCTOR),
            ErrorKind::IsADirectory => {
                new.hint("a folder is in the place of a file; look at it, and move it away")
            }
            ErrorKind::NotADirectory | ErrorKind::AlreadyExists => {
                new.hint("something else is in the place of a folder; look at it, and move it away")
            }
            _ => new,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suggested_port_is_one() {
        for (port, expected) in
            [(80, "8080"), (1, "8001"), (999, "8999"), (1_000, "9000"), (1_023, "9023"), (4_000, "HOST")]
        {
            assert_eq!(higher(port), expected);
        }
    }

    #[test]
    fn a_guest_that_hangs_is_not_put_to_sleep() {
        for error in [
            RuntimeError::NotInTime { command: "a script", seconds: 60 },
            RuntimeError::TooMuchOutput { command: "a script", mib: 8 },
        ] {
            let error = CommandError::from(error);
            assert!(error.hints.concat().contains("`agents-sandbox stop --cold`"), "{error:?}");
        }
    }

    #[test]
    fn nobody_is_told_to_delete_what_is_not_broken() {
        let (path, name) = ("/srv/data".into(), "shop-4chyvv5c1qh507-opencode".parse().unwrap());
        let part = "the mount at /data".into();
        for error in [
            RuntimeError::BadPart { name, part, path, problem: "is not there" },
            RuntimeError::NewerRecord { path: "/srv/data".into(), version: 2, known: 1 },
            RuntimeError::Unsafe { path: "/srv/data".into(), problem: "may be written by others".into() },
        ] {
            let error = CommandError::from(error);
            assert!(error.message.contains("/srv/data"), "{error:?}");
            assert!(!error.hints.is_empty() && !error.hints.concat().contains("delete"), "{error:?}");
        }
        let broken = RuntimeError::BadRecord { path: "/srv/data".into(), problem: "it is empty".into() };
        assert!(CommandError::from(broken).hints.concat().contains("delete"));
    }
}

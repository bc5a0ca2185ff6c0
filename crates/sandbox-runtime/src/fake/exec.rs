use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;

use rustix::process::{PidfdFlags, pidfd_open};
use sandbox_model::{
    ExecSpec, ExecUser, GUEST_HOME, GUEST_WORKSPACE, SandboxName, SandboxSpec, secret_environment,
};

use super::machine::Machine;
use super::processes::MARK;
use super::session::{self, Waiting};
use super::spawn::{Place, Terminal};
use super::store::Store;
use super::{images, spawn};
use crate::{ExecSession, Result, RuntimeError};

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

pub(super) fn exec(store: &Store, name: &SandboxName, exec: &ExecSpec) -> Result<ExecSession> {
    let machine = Machine::new(store, name);
    let (boot_id, pid) = machine.require_running("run a command")?;
    let record = store.require(name)?;
    let lost = || RuntimeError::Lost(name.clone());
    let life = pidfd_open(pid, PidfdFlags::empty()).map_err(|_| lost())?;
    // The number may have been someone else's by then; the lock and the boot's id say that it was not.
    if machine.require_running("run a command")?.0 != boot_id {
        return Err(lost());
    }

    let mut command = command(store, &record.spec, exec, &boot_id)?;
    let terminal = exec.tty.filter(|_| !exec.detach).map(Terminal::open).transpose()?;
    match &terminal {
        Some(terminal) => terminal.give_to(&mut command)?,
        None if exec.detach => drop(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null())),
        None => drop(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped())),
    }
    let place = match (&terminal, exec.detach) {
        (Some(_), _) => Place::OwnTerminal,
        (None, true) => Place::Detached,
        (None, false) => Place::OwnSession,
    };
    spawn::prepare(&mut command, place);

    // A thread per command waits for it. The kernel hangs up a command whose thread is gone, so the thread
    // stays until then: when this process dies, however it dies, its commands hear of it.
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let spawned = command.spawn();
        // The terminal's other side must close with the command, not with this thread.
        drop(command);
        match spawned {
            Ok(mut child) => {
                let waiting = Waiting::new(&child);
                let streams = (child.stdin.take(), child.stdout.take(), child.stderr.take());
                let _ = sender.send(waiting.as_ref().map(|w| (w.clone(), streams)).map_err(copy));
                if let Ok(waiting) = waiting {
                    waiting.wait(&mut child);
                }
            }
            Err(error) => drop(sender.send(Err(error))),
        }
    });
    let (waiting, streams) = receiver
        .recv()
        .map_err(|_| RuntimeError::other("the thread that runs commands ended"))?
        .map_err(|error| failed(&exec.argv, &error))?;
    if exec.detach {
        return Ok(session::detached());
    }
    Ok(match terminal {
        Some(terminal) => session::on_terminal(name, waiting, life, terminal.into_master())?,
        None => session::on_pipes(name, waiting, life, streams),
    })
}

fn copy(error: &std::io::Error) -> std::io::Error {
    std::io::Error::new(error.kind(), error.to_string())
}

/// The codes are those of a shell.
fn failed(argv: &[OsString], error: &std::io::Error) -> RuntimeError {
    let word = argv.first().map(|word| word.to_string_lossy()).unwrap_or_default();
    let code = match error.kind() {
        ErrorKind::NotFound => 127,
        ErrorKind::InvalidInput => 1,
        _ => 126,
    };
    RuntimeError::ExecFailed { code, message: format!("{word}: {error}") }
}

fn command(store: &Store, spec: &SandboxSpec, exec: &ExecSpec, boot_id: &str) -> Result<Command> {
    let (program, args) =
        exec.argv.split_first().filter(|(program, _)| !program.is_empty()).ok_or_else(|| {
            RuntimeError::ExecFailed { code: 127, message: "there is no program to run".into() }
        })?;
    let dir = store.sandbox(&spec.name);
    let (user, home) = match exec.user {
        ExecUser::Dev => ("dev", store.home(&spec.home)),
        ExecUser::Root => ("root", dir.join("root")),
    };
    let tmp = dir.join("tmp");
    for dir in [&home, &tmp] {
        fs::create_dir_all(dir)?;
    }
    let cwd = place(store, spec, exec.cwd.as_deref().unwrap_or(GUEST_WORKSPACE));
    if !cwd.is_dir() {
        let message = format!("{}: no such folder", exec.cwd.as_deref().unwrap_or(GUEST_WORKSPACE));
        return Err(RuntimeError::ExecFailed { code: 1, message });
    }

    let image = images::env(store, &spec.image_digest)?;
    let mut command = Command::new(program);
    command.args(args).current_dir(cwd).env_clear();
    if exec.tty.is_some() {
        command.env("TERM", "xterm-256color");
    }
    command.env("LANG", "C.UTF-8").env("SHELL", "/bin/sh").env("TMPDIR", tmp).envs(image.iter().cloned());
    // What the caller has on its path stands for what the image would have installed.
    let of_image = image.iter().rfind(|(key, _)| key == "PATH").map_or(PATH, |(_, value)| value);
    let of_host = std::env::var_os("PATH").unwrap_or_default();
    // A folder that may not be searched would make every unknown program look like a forbidden one.
    let of_host = std::env::split_paths(&of_host).filter(|dir| dir.join(".").is_dir());
    let path = std::env::join_paths(std::env::split_paths(of_image).chain(of_host))
        .unwrap_or_else(|_| OsString::from(of_image));
    command.env("PATH", path).env("HOME", home).env("USER", user).env("LOGNAME", user);
    command
        .envs(secret_environment(&spec.secrets))
        .envs(&spec.env)
        .envs(exec.env.iter().cloned())
        .env(MARK, boot_id);
    Ok(command)
}

/// Where a guest folder is on the host.
fn place(store: &Store, spec: &SandboxSpec, guest: &str) -> PathBuf {
    let below = |prefix: &str| {
        let rest = OsStr::from_bytes(guest.as_bytes());
        Path::new(rest).strip_prefix(prefix).ok().map(Path::to_path_buf)
    };
    match (below(GUEST_WORKSPACE), below(GUEST_HOME)) {
        (Some(rest), _) => spec.workspace.source.join(rest),
        (None, Some(rest)) => store.home(&spec.home).join(rest),
        (None, None) => guest.into(),
    }
}

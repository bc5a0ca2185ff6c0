use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use nix::unistd::{Pid, geteuid};
use sandbox_model::TermSize;
use sandbox_wire::ExecRequest;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use super::accounts::Account;
use super::environment;
use super::program::{self, Missing};
use super::terminal::Terminal;
use crate::guest::Settings;
use crate::sys::{Birth, Credentials};

/// Why a command never ran, with the code that a shell would exit with.
#[derive(Debug)]
pub struct Refusal {
    pub code: i32,
    pub message: String,
}

impl Refusal {
    /// `code` is 126, 127 or 1; `message` is for people.
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

/// A running command and our ends of its standard streams.
#[derive(Debug)]
pub struct Process {
    pub child: Child,
    /// The command's process group, which is also its session.
    pub group: Pid,
    pub stdin: Option<ChildStdin>,
    pub terminal: Option<Arc<Terminal>>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
}

/// What a command writes to.
#[derive(Debug)]
pub enum Outputs {
    Pipes(ChildStdout, ChildStderr),
    Terminal(Arc<Terminal>),
    Nothing,
}

impl Process {
    /// The command itself, which leads its process group.
    pub fn pid(&self) -> u32 {
        self.group.as_raw().cast_unsigned()
    }

    /// The ends to read from: once, for the pipes go with them.
    pub fn take_outputs(&mut self) -> Outputs {
        match (self.stdout.take(), self.stderr.take(), &self.terminal) {
            (Some(stdout), Some(stderr), _) => Outputs::Pipes(stdout, stderr),
            (_, _, Some(terminal)) => Outputs::Terminal(Arc::clone(terminal)),
            _ => Outputs::Nothing,
        }
    }
}

/// Where the accounts are.
const ETC: &str = "/etc";

/// Starts the command of a request.
pub fn spawn(request: &ExecRequest, settings: &Settings) -> Result<Process, Refusal> {
    let name = request.argv.first().ok_or_else(|| Refusal::new(1, "there is no command to run"))?;
    let user = if request.user.is_empty() { &settings.user } else { &request.user };
    let account = Account::find(Path::new(ETC), user)
        .ok_or_else(|| Refusal::new(1, format!("there is no user {user:?} in the sandbox")))?;
    let cwd = Path::new(&request.cwd);
    if !cwd.is_dir() {
        return Err(Refusal::new(1, format!("there is no folder {:?} in the sandbox", request.cwd)));
    }
    let env = environment::compose(&settings.env, &account, request.tty.is_some(), &request.env);
    let path = env.iter().find(|(name, _)| name == "PATH").map_or("", |(_, value)| value);
    let program = program::find(name, path, cwd, &account).map_err(|missing| refuse(name, &missing))?;

    let mut command = Command::new(&program);
    command.arg0(OsStr::from_bytes(name)).args(request.argv[1..].iter().map(|word| OsStr::from_bytes(word)));
    command.env_clear().envs(env).current_dir(cwd);
    let terminal = if let Some(size) = request.tty.filter(|_| !request.detach) {
        Some(
            on_terminal(&mut command, size)
                .map_err(|error| Refusal::new(1, format!("opening a terminal: {error}")))?,
        )
    } else {
        let stdio = if request.detach { Stdio::null } else { Stdio::piped };
        command.stdin(stdio()).stdout(stdio()).stderr(stdio());
        None
    };
    Birth { terminal: terminal.is_some(), credentials: credentials(&account)? }.prepare(&mut command);
    let mut child = command.spawn().map_err(|error| not_run(&program, &error))?;
    let pid = child.id().ok_or_else(|| Refusal::new(1, "the command ended before it began"))?;
    Ok(Process {
        group: Pid::from_raw(pid.cast_signed()),
        stdin: child.stdin.take(),
        stdout: child.stdout.take(),
        stderr: child.stderr.take(),
        terminal,
        child,
    })
}

fn on_terminal(command: &mut Command, size: TermSize) -> io::Result<Arc<Terminal>> {
    let (terminal, peer) = Terminal::open(size)?;
    command.stdin(peer.try_clone()?).stdout(peer.try_clone()?).stderr(peer);
    Ok(Arc::new(terminal))
}

/// The change of user; none where we are that user already, so that this works without being root.
fn credentials(account: &Account) -> Result<Option<Credentials>, Refusal> {
    let me = geteuid();
    if me.is_root() {
        let Account { uid, gid, groups, .. } = account;
        Ok(Some(Credentials { uid: *uid, gid: *gid, groups: groups.clone() }))
    } else if me == account.uid {
        Ok(None)
    } else {
        Err(Refusal::new(1, format!("only root may run a command as {:?}", account.name)))
    }
}

fn refuse(name: &[u8], missing: &Missing) -> Refusal {
    let name = String::from_utf8_lossy(name);
    match missing {
        Missing::NotFound => Refusal::new(127, format!("{name}: command not found")),
        Missing::NotExecutable(path) => Refusal::new(126, format!("{}: not executable", path.display())),
    }
}

fn not_run(program: &Path, error: &io::Error) -> Refusal {
    let program = program.display();
    match error.kind() {
        // The program itself was found a moment ago.
        ErrorKind::NotFound => Refusal::new(126, format!("{program}: its interpreter is missing")),
        ErrorKind::InvalidInput => {
            Refusal::new(1, format!("{program}: a word or variable holds a zero byte"))
        }
        _ => Refusal::new(126, format!("{program}: {error}")),
    }
}

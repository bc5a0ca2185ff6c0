use std::ffi::OsString;

use sandbox_model::{AgentName, ExecSpec, ExecUser, TermSize};

use crate::Daemon;

/// The agent on a user's terminal, with the words after `--` unchanged.
///
/// `daemon` is what [`crate::ensure_daemon`] returned; `tty` is the size of the user's terminal, `None`
/// where there is none.
pub fn agent_command(
    agent: AgentName,
    guest_dir: &str,
    daemon: Option<&Daemon>,
    args: &[OsString],
    tty: Option<TermSize>,
) -> ExecSpec {
    let _ = (agent, daemon);
    exec_command(guest_dir, args, false, tty)
}

/// A login shell, as `dev` or as root.
pub fn shell_command(guest_dir: &str, root: bool, tty: Option<TermSize>) -> ExecSpec {
    let mut spec = exec_command(guest_dir, &["bash".into(), "-l".into()], root, tty);
    spec.tty = tty;
    spec
}

/// Any command with the environment of a login shell, its words unchanged.
pub fn exec_command(guest_dir: &str, argv: &[OsString], root: bool, tty: Option<TermSize>) -> ExecSpec {
    let mut spec = ExecSpec::new(argv.iter().cloned());
    spec.cwd = Some(guest_dir.into());
    spec.user = if root { ExecUser::Root } else { ExecUser::Dev };
    spec.tty = tty;
    spec
}

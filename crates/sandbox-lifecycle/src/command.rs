use std::ffi::OsString;
use std::time::Duration;

use sandbox_agents::Launch;
use sandbox_model::{ExecSpec, ExecUser, TermSize};

use crate::{Daemon, Up, kept};

/// For a short script of ours in a guest. Without hardware virtualization, on a busy machine, they take seconds.
pub const SCRIPT_WITHIN: Duration = Duration::from_mins(2);

/// The agent on a user's terminal, with the words after `--` unchanged.
///
/// `daemon` is what [`crate::ensure_daemon`] returned; `tty` is the size of the user's terminal, `None`
/// where there is none. On a terminal, it outlives that, as the shell below does.
pub fn agent_command(up: &Up, daemon: Option<&Daemon>, args: &[OsString], tty: Option<TermSize>) -> ExecSpec {
    let profile = up.profile;
    let password = daemon.map_or("", |daemon| &daemon.password);
    let command = profile.command(&Launch { guest_dir: &up.guest_dir, password, args });
    let words = if tty.is_some() { on_terminal(command.argv) } else { login(command.argv) };
    let mut spec = exec_command(&up.guest_dir, &words, false, tty);
    spec.env = profile.environment(false, up.emulated);
    spec.env.extend(command.env);
    spec.keep = tty.map(|_| kept::agent(up, password, args));
    spec
}

/// A login shell, as `dev` or as root.
pub fn shell_command(guest_dir: &str, root: bool, tty: Option<TermSize>) -> ExecSpec {
    let mut spec = exec_command(guest_dir, &["bash".into(), "-l".into()], root, tty);
    spec.keep = tty.map(|_| kept::shell(root));
    spec
}

/// Any command, its words unchanged, with the environment of the image and the sandbox.
pub fn exec_command(guest_dir: &str, argv: &[OsString], root: bool, tty: Option<TermSize>) -> ExecSpec {
    let mut spec = ExecSpec::new(argv.iter().cloned());
    spec.cwd = Some(guest_dir.into());
    spec.user = if root { ExecUser::Root } else { ExecUser::Dev };
    spec.tty = tty;
    spec
}

/// The same words with the environment of a login shell, as the user's profile makes it. They travel as
/// the shell's arguments and never as its text.
pub(crate) fn login(argv: Vec<OsString>) -> Vec<OsString> {
    script("exec \"$@\"", argv)
}

/// [`login`] on a terminal, below a shell that lets a program go on which stops itself, as agents do at Ctrl-Z.
///
/// Nobody could type `fg` there. A program that leads its terminal's session is not stopped by `SIGTSTP` at all,
/// and would wait in vain for the `SIGCONT` at which it takes its screen back.
fn on_terminal(argv: Vec<OsString>) -> Vec<OsString> {
    let mut words = script(GO_ON, argv);
    // Job control: the program has a group of its own, in the foreground.
    words.insert(1, "-m".into());
    words
}

/// A recursion, because a stop breaks the shell's loops. The shell itself outlives signals that are the program's to
/// answer, and says nothing of how the program ended. What the user's profile started in the background is not the
/// program, and not the shell's to bring back.
const GO_ON: &str = r#"again() { code=$?; if jobs %% >/dev/null; then fg >/dev/null; again; fi; }
trap : HUP INT QUIT TERM USR1 USR2
disown -a
exec 3>&2 2>/dev/null
"$@" 2>&3 3>&-
again
exit $code"#;

/// A fixed text for a login shell, with words for its `$1`, `$2`, ….
pub(crate) fn script(text: &str, words: Vec<OsString>) -> Vec<OsString> {
    ["bash", "-l", "-c", text, "agents-sandbox"].into_iter().map(OsString::from).chain(words).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;
    use std::process::Command;

    use super::*;

    #[test]
    fn words_pass_a_login_shell_byte_for_byte() {
        let words: Vec<OsString> =
            [&b"printf"[..], b"%s|", b"a b", b"'\"$HOME`id`", b"line\nbreak", b"", b"\xff", b"--", b"-c"]
                .into_iter()
                .map(|word| OsString::from_vec(word.to_vec()))
                .collect();
        let home = tempfile::tempdir().unwrap();
        for argv in [login(words.clone()), on_terminal(words)] {
            // Away from a terminal that the test may have, which job control would take.
            let mut command = Command::new("setsid");
            let output = command.arg("--wait").args(&argv).env("HOME", home.path()).output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            assert_eq!(said, "a b|'\"$HOME`id`|line\nbreak||\u{fffd}|--|-c|", "{argv:?}");
        }
    }

    #[test]
    fn a_shell_of_root_starts_where_the_user_is() {
        let spec = shell_command("/workspace/src", true, Some(TermSize { cols: 80, rows: 24 }));
        assert_eq!(spec.user, ExecUser::Root);
        assert_eq!(spec.cwd.as_deref(), Some("/workspace/src"));
        assert_eq!(spec.argv, ["bash", "-l"]);
    }
}

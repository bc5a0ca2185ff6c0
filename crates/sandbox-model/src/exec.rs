use std::ffi::OsString;

use serde::{Deserialize, Serialize};

use crate::Keep;

/// A terminal's size in character cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TermSize {
    /// Cells in a row.
    pub cols: u16,
    /// Rows on the screen.
    pub rows: u16,
}

/// Who a command runs as inside the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExecUser {
    /// `dev`, with its own groups, home and login shell as the image's `/etc/passwd` says.
    Dev,
    /// User 0: for what this program sets up in the guest, and for whoever asks for it.
    Root,
}

/// A command to run inside a running sandbox.
#[derive(Debug, Clone)]
pub struct ExecSpec {
    /// Program (looked up in the guest's PATH) and arguments, byte for byte; at least one word.
    pub argv: Vec<OsString>,
    /// Added to the image's and the sandbox's environment, later entries win.
    pub env: Vec<(String, String)>,
    /// Absolute guest path; `None` is `/workspace`.
    pub cwd: Option<String>,
    /// Whose rights, home and groups it gets.
    pub user: ExecUser,
    /// `Some` runs the command on a new terminal of that size: stdout and stderr are then one stream.
    pub tty: Option<TermSize>,
    /// A detached command gets no input and outlives the session; its output goes nowhere.
    pub detach: bool,
    /// A command on a terminal that goes on when its client leaves, where the runtime keeps sessions.
    pub keep: Option<Keep>,
}

impl ExecSpec {
    /// `argv` as `dev` in `/workspace`, without a terminal.
    pub fn new(argv: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            env: Vec::new(),
            cwd: None,
            user: ExecUser::Dev,
            tty: None,
            detach: false,
            keep: None,
        }
    }
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExitStatus {
    /// It ended by itself, with this exit code.
    Code(i32),
    /// A signal of this number ended it.
    Signal(i32),
}

impl ExitStatus {
    /// Exit code 0.
    pub const SUCCESS: Self = Self::Code(0);

    /// The code a shell would report: the exit code, or 128 plus the signal's number.
    pub const fn shell_code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + signal,
        }
    }

    /// Whether it ended by itself with code 0.
    pub const fn success(self) -> bool {
        matches!(self, Self::Code(0))
    }
}
